import com.sun.messaging.ConnectionConfiguration;
import com.sun.messaging.ConnectionFactory;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;

/**
 * A JMS client that holds what its arguments say, until it is ended.
 *
 * ADDRESS consume PREFIX COUNT: one consumer on each of the queues PREFIX0…; they take messages and acknowledge none.
 * ADDRESS fill QUEUE COUNT: that many small messages.
 * ADDRESS subscribe TOPIC COUNT: members of a shared durable subscription "shared" and of a durable one "own", and as
 * many messages sent.
 * ADDRESS temporary QUEUE COUNT: creates and deletes temporary queues with a consumer for ever.
 */
public class OpenMQLoad {
    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setProperty(ConnectionConfiguration.imqAddressList, arguments[0]);
        Connection connection = factory.createConnection("guest", "guest");
        connection.setClientID("load-" + arguments[1]);
        connection.start();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        String name = arguments[2];
        int count = Integer.parseInt(arguments[3]);
        switch (arguments[1]) {
            case "consume":
                for (int i = 0; i < count; i++) {
                    session.createConsumer(session.createQueue(name + i));
                }
                break;
            case "fill":
                send(session, session.createProducer(session.createQueue(name)), count);
                break;
            case "subscribe":
                for (int i = 0; i < count; i++) {
                    session.createSharedDurableConsumer(session.createTopic(name), "shared");
                }
                session.createDurableConsumer(session.createTopic(name), "own");
                send(session, session.createProducer(session.createTopic(name)), count);
                break;
            case "temporary":
                Thread churn = new Thread(() -> churn(connection));
                churn.setDaemon(true);
                churn.start();
                break;
            default:
                throw new IllegalArgumentException(arguments[1]);
        }
        System.out.println("ready");
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void send(Session session, MessageProducer producer, int count) throws Exception {
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        TextMessage message = session.createTextMessage("x");
        for (int i = 0; i < count; i++) {
            producer.send(message);
        }
        producer.close();
    }

    private static void churn(Connection connection) {
        try {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            while (true) {
                Queue queue = session.createTemporaryQueue();
                MessageConsumer consumer = session.createConsumer(queue);
                consumer.close();
                ((jakarta.jms.TemporaryQueue) queue).delete();
            }
        } catch (jakarta.jms.JMSException ended) {
            // the connection was closed
        }
    }
}
