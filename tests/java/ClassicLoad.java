import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * JMS clients of ActiveMQ Classic, each with a connection of its own, until they are ended: URL {CLIENT-ID ACTION NAME
 * COUNT}. Prints "ready" once all are at work, then each second "counts", and of each its id, what it sent and received.
 *
 * send, publish (to a topic): COUNT messages each second; expire: the same, each lives 2 seconds. fill, tell (to a
 * topic): COUNT at once. read, listen (to a topic): COUNT milliseconds a message. hang, deaf (on a topic): returns from
 * no message after COUNT. hold: receives COUNT in a transaction, commits none. commit: commits COUNT each second.
 * lazy: never acknowledges. batch: acknowledges COUNT at once. select: wants none of them. unstarted: no start().
 * durable: a durable subscription that is left at once. visit: receives COUNT and leaves. fail: rolls each one back.
 * beside: reads, and sends COUNT in a transaction of another session that it never commits.
 */
public class ClassicLoad {
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger received = new AtomicInteger();
    private final String id;
    private final String action;
    private final String name;
    private final int count;
    private Connection connection;

    private ClassicLoad(String id, String action, String name, int count) {
        this.id = id;
        this.action = action;
        this.name = name;
        this.count = count;
    }

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        List<ClassicLoad> clients = new ArrayList<>();
        for (int i = 1; i < arguments.length; i += 4) {
            clients.add(new ClassicLoad(
                arguments[i], arguments[i + 1], arguments[i + 2], Integer.parseInt(arguments[i + 3])));
        }
        CountDownLatch ready = new CountDownLatch(clients.size());
        for (ClassicLoad client : clients) {
            client.connection = factory.createConnection();
            client.connection.setClientID(client.id);
            if (!client.action.equals("unstarted")) {
                client.connection.start();
            }
            Thread worker = new Thread(() -> client.run(ready), client.id);
            worker.setDaemon(true);
            worker.start();
        }
        ready.await();
        System.out.println("ready");
        while (true) {
            Thread.sleep(1000);
            StringBuilder line = new StringBuilder("counts");
            for (ClassicLoad client : clients) {
                line.append(' ').append(client.id).append(' ').append(client.sent).append(' ').append(client.received);
            }
            System.out.println(line);
        }
    }

    private void run(CountDownLatch ready) {
        try {
            work(ready);
        } catch (JMSException | InterruptedException error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private void work(CountDownLatch ready) throws JMSException, InterruptedException {
        boolean transacted = action.equals("hold") || action.equals("commit") || action.equals("fail");
        boolean byClient = action.equals("lazy") || action.equals("batch");
        int mode = byClient ? Session.CLIENT_ACKNOWLEDGE : Session.AUTO_ACKNOWLEDGE;
        Session session = connection.createSession(transacted, transacted ? Session.SESSION_TRANSACTED : mode);
        MessageProducer producer;
        MessageConsumer consumer;
        switch (action) {
            case "send":
            case "publish":
            case "expire":
                boolean toTopic = action.equals("publish");
                producer = session.createProducer(toTopic ? session.createTopic(name) : session.createQueue(name));
                producer.setTimeToLive(action.equals("expire") ? 2000 : 0);
                ready.countDown();
                while (true) {
                    send(session, producer);
                    Thread.sleep(1000 / count);
                }
            case "fill":
            case "tell":
                producer = session.createProducer(
                    action.equals("fill") ? session.createQueue(name) : session.createTopic(name));
                for (int i = 0; i < count; i++) {
                    send(session, producer);
                }
                break;
            case "read":
            case "listen":
                session.createConsumer(action.equals("read") ? session.createQueue(name) : session.createTopic(name))
                    .setMessageListener(message -> take(count));
                break;
            case "hang":
            case "deaf":
                session.createConsumer(action.equals("hang") ? session.createQueue(name) : session.createTopic(name))
                    .setMessageListener(message -> take(received.get() < count ? 0 : Integer.MAX_VALUE));
                break;
            case "lazy":
                session.createConsumer(session.createQueue(name)).setMessageListener(message -> take(0));
                break;
            case "beside":
                session.createConsumer(session.createQueue(name)).setMessageListener(message -> take(10));
                Session other = connection.createSession(true, Session.SESSION_TRANSACTED);
                producer = other.createProducer(other.createQueue(name + ".later"));
                for (int i = 0; i < count; i++) {
                    send(other, producer);
                }
                break;
            case "select":
                session.createConsumer(session.createQueue(name), "colour = 'none'");
                break;
            case "durable":
                session.createDurableSubscriber(session.createTopic(name), "sub");
                connection.close();
                break;
            case "hold":
            case "visit":
                consumer = session.createConsumer(session.createQueue(name));
                ready.countDown();
                receive(consumer, count);
                if (action.equals("visit")) {
                    connection.close();
                }
                return;
            case "commit":
            case "batch":
            case "fail":
                consumer = session.createConsumer(session.createQueue(name));
                ready.countDown();
                while (true) {
                    Message last = receive(consumer, action.equals("fail") ? 1 : count);
                    if (action.equals("commit")) {
                        session.commit();
                        Thread.sleep(1000);
                    } else if (action.equals("batch")) {
                        last.acknowledge();
                    } else {
                        session.rollback();
                    }
                }
            case "unstarted":
                session.createConsumer(session.createQueue(name));
                break;
            default:
                throw new IllegalArgumentException(action);
        }
        ready.countDown();
    }

    private void send(Session session, MessageProducer producer) throws JMSException {
        producer.send(session.createTextMessage("x".repeat(1000)));
        sent.incrementAndGet();
    }

    private Message receive(MessageConsumer consumer, int number) throws JMSException {
        Message last = null;
        for (int i = 0; i < number; i++) {
            last = consumer.receive();
            received.incrementAndGet();
        }
        return last;
    }

    private void take(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
        received.incrementAndGet();
    }
}
