import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * A JMS client of ActiveMQ Classic that does what its arguments say until it is ended: URL CLIENT-ID ACTION NAME COUNT.
 * It prints "ready" once that is so, then each second "counts SENT RECEIVED".
 *
 * send: so many messages each second; fill: so many at once. expire: as send, each lives 2 seconds.
 * read: acknowledges at once, COUNT milliseconds a message. hang: the listener does not return from message COUNT + 1.
 * hold: receives COUNT in a transaction and commits none. commit: receives COUNT, commits them, and so on, once a second.
 * lazy: CLIENT_ACKNOWLEDGE without acknowledge(). select: a selector that matches nothing. unstarted: no start().
 * durable: a durable subscription that is left at once. listen: a subscriber of a topic. fail: rolls each message back.
 */
public class ClassicLoad {
    private static final AtomicInteger sent = new AtomicInteger();
    private static final AtomicInteger received = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        String action = arguments[2];
        String name = arguments[3];
        int count = Integer.parseInt(arguments[4]);
        Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection();
        connection.setClientID(arguments[1]);
        if (!action.equals("unstarted")) {
            connection.start();
        }
        boolean transacted = action.equals("hold") || action.equals("commit") || action.equals("fail");
        int mode = action.equals("lazy") ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        Session session = connection.createSession(transacted, transacted ? Session.SESSION_TRANSACTED : mode);
        Thread worker = new Thread(() -> {
            try {
                work(session, action, name, count);
            } catch (Exception error) {
                error.printStackTrace();
                System.exit(1);
            }
        });
        worker.setDaemon(true);
        if (action.equals("send") || action.equals("expire") || action.equals("commit") || action.equals("fail")) {
            worker.start();
        } else {
            work(session, action, name, count);
        }
        if (action.equals("durable")) {
            connection.close();
        }
        System.out.println("ready");
        while (true) {
            Thread.sleep(1000);
            System.out.println("counts " + sent + " " + received);
        }
    }

    private static void work(Session session, String action, String name, int count) throws Exception {
        switch (action) {
            case "send":
            case "expire":
                MessageProducer producer = session.createProducer(session.createQueue(name));
                producer.setTimeToLive(action.equals("expire") ? 2000 : 0);
                while (true) {
                    send(session, producer);
                    Thread.sleep(1000 / count);
                }
            case "fill":
                MessageProducer filler = session.createProducer(session.createQueue(name));
                for (int i = 0; i < count; i++) {
                    send(session, filler);
                }
                return;
            case "publish":
                MessageProducer publisher = session.createProducer(session.createTopic(name));
                for (int i = 0; i < count; i++) {
                    send(session, publisher);
                }
                return;
            case "read":
                session.createConsumer(session.createQueue(name)).setMessageListener(message -> pause(count));
                return;
            case "listen":
                session.createConsumer(session.createTopic(name)).setMessageListener(message -> pause(count));
                return;
            case "hang":
                session.createConsumer(session.createQueue(name)).setMessageListener(message -> {
                    if (received.get() >= count) {
                        pause(Integer.MAX_VALUE);
                    }
                    pause(0);
                });
                return;
            case "hold":
                receive(session.createConsumer(session.createQueue(name)), count);
                return;
            case "commit":
                MessageConsumer steady = session.createConsumer(session.createQueue(name));
                while (true) {
                    receive(steady, count);
                    Thread.sleep(1000);
                    session.commit();
                }
            case "fail":
                MessageConsumer failing = session.createConsumer(session.createQueue(name));
                while (true) {
                    receive(failing, 1);
                    session.rollback();
                }
            case "lazy":
                session.createConsumer(session.createQueue(name)).setMessageListener(message -> pause(0));
                return;
            case "select":
                session.createConsumer(session.createQueue(name), "colour = 'none'");
                return;
            case "unstarted":
                session.createConsumer(session.createQueue(name));
                return;
            case "durable":
                session.createDurableSubscriber(session.createTopic(name), "sub");
                return;
            default:
                throw new IllegalArgumentException(action);
        }
    }

    private static void send(Session session, MessageProducer producer) throws Exception {
        TextMessage message = session.createTextMessage("x".repeat(1000));
        producer.setDeliveryMode(DeliveryMode.PERSISTENT);
        producer.send(message);
        sent.incrementAndGet();
    }

    private static void receive(MessageConsumer consumer, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive();
            if (message != null) {
                received.incrementAndGet();
            }
        }
    }

    private static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        received.incrementAndGet();
    }
}
