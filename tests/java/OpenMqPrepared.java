import com.sun.messaging.ConnectionConfiguration;
import com.sun.messaging.XAConnectionFactory;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.XAConnection;
import jakarta.jms.XASession;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * A client that prepares one XA transaction and decides nothing, for tests.
 *
 * <p>Arguments: {@code URL USER QUEUE RECEIVED SENT}: so many are received from that queue and so many sent to it. The
 * password is the first line of standard input. Prints {@code prepared} and stays until it is killed.
 */
public final class OpenMqPrepared {
    private record Branch(byte[] global) implements Xid {
        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    public static void main(String[] args) throws Exception {
        XAConnectionFactory factory = new XAConnectionFactory();
        factory.setProperty(ConnectionConfiguration.imqAddressList, args[0]);
        String password = new BufferedReader(new InputStreamReader(System.in)).readLine();
        XAConnection connection = factory.createXAConnection(args[1], password);
        connection.setClientID("preparer");
        connection.start();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Xid branch = new Branch(("in-doubt-" + System.nanoTime()).getBytes(StandardCharsets.UTF_8));
        resource.start(branch, XAResource.TMNOFLAGS);
        Session plain = session.getSession();
        MessageConsumer consumer = plain.createConsumer(plain.createQueue(args[2]));
        for (int i = 0; i < Integer.parseInt(args[3]); i++) {
            if (consumer.receive(10_000) == null) {
                throw new IllegalStateException("nothing to receive");
            }
        }
        MessageProducer producer = plain.createProducer(plain.createQueue(args[2]));
        for (int i = 0; i < Integer.parseInt(args[4]); i++) {
            producer.send(plain.createTextMessage("x"));
        }
        resource.end(branch, XAResource.TMSUCCESS);
        resource.prepare(branch);
        System.out.println("prepared");
        Thread.sleep(Long.MAX_VALUE);
    }
}
