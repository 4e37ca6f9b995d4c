import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.artemis.core.transaction.impl.XidImpl;
import org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory;

/**
 * JMS clients of the Core protocol, or of OpenWire with the option openwire, driven by lines on stdin; each command is
 * answered by one line on stdout that begins with its number. Commands: NUMBER TAB open|counts|numbers|close TAB ID TAB KEY=VALUE TAB ...
 */
public final class CoreClients {
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        say("ready");
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t");
            workers.execute(() -> say(words[0] + "\t" + answer(words)));
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static String answer(String[] words) {
        try {
            String id = words[2];
            switch (words[1]) {
                case "open":
                    Client client = new Client(options(words));
                    CLIENTS.put(id, client);
                    client.open();
                    return "ok";
                case "counts":
                    return "ok\t" + CLIENTS.get(id).counts();
                case "numbers":
                    return "ok\t" + CLIENTS.get(id).numbers();
                case "close":
                    Client closing = CLIENTS.remove(id);
                    closing.close();
                    return "ok\t" + closing.counts();
                default:
                    return "error\tunknown command " + words[1];
            }
        } catch (Exception trouble) {
            return "error\t" + trouble.toString().replace('\n', ' ');
        }
    }

    private static Map<String, String> options(String[] words) {
        Map<String, String> options = new HashMap<>();
        for (int i = 3; i < words.length; i++) {
            int at = words[i].indexOf('=');
            options.put(words[i].substring(0, at), words[i].substring(at + 1));
        }
        return options;
    }

    /** One connection with one session; what it does with a message is said by its options. */
    private static final class Client {
        private final Map<String, String> options;
        private final String mode;
        private final long work;
        private final long stuckAfter;
        private final long batch;
        private final long commitMillis;
        private final double returns;
        private final boolean poisoned;
        private final boolean openwire;
        private final AtomicLong sent = new AtomicLong();
        private final AtomicLong received = new AtomicLong();
        private final AtomicLong acknowledged = new AtomicLong();
        private final AtomicLong returned = new AtomicLong();
        private volatile long lastAck;
        private volatile long firstStuck;
        private volatile long lastReturn;
        private final CountDownLatch ending = new CountDownLatch(1);
        private final StringBuilder numbers = new StringBuilder();
        private final StringBuilder unsettled = new StringBuilder();
        private final java.util.Random dice;
        private final long began = System.currentTimeMillis();
        private long open;
        private long lastCommit = System.currentTimeMillis();
        private ActiveMQConnectionFactory factory;
        private Connection connection;
        private Session session;
        private MessageConsumer consumer;
        private MessageProducer replies;
        private Thread puller;

        Client(Map<String, String> options) {
            this.options = options;
            mode = options.getOrDefault("mode", "auto");
            work = number("work", 0);
            stuckAfter = number("stuck_after", -1);
            batch = number("batch", 1);
            commitMillis = number("commit_ms", 0);
            returns = Double.parseDouble(options.getOrDefault("returns", "0"));
            poisoned = options.containsKey("poisoned");
            openwire = options.containsKey("openwire");
            dice = new java.util.Random(number("seed", 1));
        }

        private long number(String name, long otherwise) {
            return Long.parseLong(options.getOrDefault(name, Long.toString(otherwise)));
        }

        void open() throws JMSException {
            if (mode.equals("xa") || mode.equals("decide")) {
                openDistributed();
                return;
            }
            ConnectionFactory made = openwire
                ? new org.apache.activemq.ActiveMQConnectionFactory(options.get("url"))
                : core();
            connection = made.createConnection(options.get("user"), options.get("password"));
            if (options.containsKey("client_id")) {
                connection.setClientID(options.get("client_id"));
            }
            session = connection.createSession(mode.equals("transacted"), acknowledgeMode());
            Queue queue = session.createQueue(options.get("queue"));
            if (mode.equals("produce")) {
                connection.start();
                MessageProducer producer = session.createProducer(queue);
                producer.setDeliveryMode(
                    options.containsKey("persistent") ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
                pull(() -> produce(producer));
                return;
            }
            if (mode.equals("browse")) {
                QueueBrowser browser = session.createBrowser(queue);
                connection.start();
                pull(() -> browse(browser));
                return;
            }
            if (options.containsKey("durable")) {
                consumer = session.createDurableSubscriber(
                    session.createTopic(options.get("queue")), options.get("durable"));
            } else {
                consumer = session.createConsumer(queue, options.get("selector"));
            }
            if (options.containsKey("reply")) {
                replies = session.createProducer(session.createQueue(options.get("reply")));
            }
            if (options.containsKey("beside")) { // another consumer of this connection, which works
                Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                other.createConsumer(other.createQueue(options.get("beside"))).setMessageListener(message -> rest());
            }
            if (options.containsKey("pull_ms")) {
                pull(this::receive);
            } else if (!options.containsKey("idle")) {
                consumer.setMessageListener(this::onMessage);
            }
            if (!options.containsKey("stopped")) {
                connection.start();
            }
        }

        private ActiveMQConnectionFactory core() {
            factory = new ActiveMQConnectionFactory(options.get("url"));
            return factory;
        }

        /**
         * xa: takes `batch` messages (and sends them `to` another queue), prepares, and after `hold_ms` commits; below
         * 0 it leaves them prepared, at most `transactions` of them. decide: does what it says with all that is
         * prepared.
         */
        private void openDistributed() throws JMSException {
            XAConnection distributed =
                core().createXAConnection(options.get("user"), options.get("password"));
            connection = distributed;
            if (options.containsKey("client_id")) {
                connection.setClientID(options.get("client_id"));
            }
            XASession branch = distributed.createXASession();
            connection.start();
            if (mode.equals("decide")) {
                decide(branch.getXAResource());
                return;
            }
            consumer = branch.createConsumer(branch.createQueue(options.get("queue")));
            MessageProducer to = options.containsKey("to")
                ? branch.createProducer(branch.createQueue(options.get("to"))) : null;
            pull(() -> distribute(branch.getXAResource(), to));
        }

        private void distribute(XAResource resource, MessageProducer to) throws Exception {
            long hold = number("hold_ms", 0);
            if (hold < 0 && returned.get() >= number("transactions", 1)) {
                return;
            }
            byte[] id = (options.get("queue") + began + "-" + returned.get()).getBytes();
            Xid xid = new XidImpl("tx".getBytes(), 1, id);
            resource.start(xid, XAResource.TMNOFLAGS);
            long taken = 0;
            while (taken < batch) {
                Message message = consumer.receive(1000);
                if (message == null || ending.getCount() == 0) {
                    break;
                }
                taken++;
                if (to != null) {
                    to.send(message);
                }
            }
            received.addAndGet(taken);
            resource.end(xid, XAResource.TMSUCCESS);
            if (taken == 0) {
                resource.rollback(xid);
                return;
            }
            resource.prepare(xid);
            returned.incrementAndGet();
            if (hold >= 0) {
                Thread.sleep(hold);
                resource.commit(xid, false);
                acknowledged.addAndGet(taken);
            }
        }

        private void decide(XAResource resource) throws JMSException {
            try {
                for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
                    if (options.get("decide").equals("commit")) {
                        resource.commit(xid, false);
                    } else {
                        resource.rollback(xid);
                    }
                    returned.incrementAndGet();
                }
            } catch (javax.transaction.xa.XAException trouble) {
                throw new JMSException("XA error " + trouble.errorCode);
            }
        }

        private void rest() {
            try {
                ending.await(number("beside_work", 0), TimeUnit.MILLISECONDS);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }

        private int acknowledgeMode() {
            switch (mode) {
                case "client": return Session.CLIENT_ACKNOWLEDGE;
                case "individual": return openwire ? ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE : 101;
                case "transacted": return Session.SESSION_TRANSACTED;
                case "dups": return Session.DUPS_OK_ACKNOWLEDGE;
                default: return Session.AUTO_ACKNOWLEDGE;
            }
        }

        private interface Step {
            void take() throws Exception;
        }

        /** Every pull_ms one step, in a thread of its own. */
        private void pull(Step step) {
            long pause = number("pull_ms", 20);
            puller = new Thread(() -> {
                try {
                    while (!ending.await(pause, TimeUnit.MILLISECONDS)) {
                        step.take();
                    }
                } catch (Exception ended) {
                    // the connection went
                }
            });
            puller.setDaemon(true);
            puller.start();
        }

        /** What is due by now at the rate, one after the other. */
        private void produce(MessageProducer producer) throws Exception {
            String padding = "x".repeat((int) number("size", 0));
            long due = number("rate", 1) * (System.currentTimeMillis() - began) / 1000;
            while (sent.get() < due && sent.get() < number("messages", Long.MAX_VALUE) && ending.getCount() > 0) {
                Message message = session.createTextMessage(sent.get() + " " + padding);
                if (options.containsKey("duplicates")) {
                    message.setStringProperty("_AMQ_DUPL_ID", options.get("queue") + sent.get() % number("duplicates", 1));
                }
                producer.send(message);
                sent.incrementAndGet();
            }
        }

        private void receive() throws Exception {
            for (Message message = consumer.receive(200); message != null; message = consumer.receive(200)) {
                onMessage(message);
            }
        }

        private void browse(QueueBrowser browser) throws Exception {
            java.util.Enumeration<?> all = browser.getEnumeration();
            while (all.hasMoreElements()) {
                all.nextElement();
                received.incrementAndGet();
            }
        }

        private void onMessage(Message message) {
            try {
                take(message);
            } catch (IllegalStateException asked) {
                throw asked;
            } catch (Exception trouble) {
                // the connection went, or the client is closed
            }
        }

        private void take(Message message) throws Exception {
            long count = received.incrementAndGet();
            note(message);
            if (stuckAfter >= 0 && count > stuckAfter) {
                firstStuck = firstStuck == 0 ? System.currentTimeMillis() : firstStuck;
                ending.await();
                return;
            }
            if (work > 0 && ending.await(work, TimeUnit.MILLISECONDS)) {
                if (batch == 0) { // to return would acknowledge in the modes auto and dups
                    throw new IllegalStateException("it fails");
                }
                return;
            }
            if (replies != null) {
                replies.send(session.createTextMessage("x".repeat((int) number("size", 0))));
                sent.incrementAndGet();
            }
            if (options.containsKey("fails")) {
                returned.incrementAndGet();
                throw new IllegalStateException("as asked");
            }
            if (comesBack(message)) {
                lastReturn = System.currentTimeMillis();
                returned.addAndGet(open + 1);
                open = 0;
                unsettled.setLength(0);
                if (mode.equals("transacted")) {
                    session.rollback();
                } else {
                    session.recover();
                }
                return;
            }
            if (count % number("skips", Long.MAX_VALUE) == 0) {
                return; // never acknowledged
            }
            open++;
            boolean due = commitMillis > 0
                ? System.currentTimeMillis() - lastCommit >= commitMillis
                : batch > 0 && open >= batch;
            if (due && count <= number("settles", Long.MAX_VALUE)) {
                settle(message);
            }
        }

        private boolean comesBack(Message message) throws JMSException {
            if (!mode.equals("transacted") && !mode.equals("client")) {
                return false;
            }
            return poisoned ? message.propertyExists("poison") : returns > 0 && dice.nextDouble() < returns;
        }

        private void settle(Message message) throws JMSException {
            if (mode.equals("transacted")) {
                session.commit();
            } else if (!mode.equals("auto")) {
                message.acknowledge();
            }
            lastCommit = lastAck = System.currentTimeMillis();
            acknowledged.addAndGet(open);
            open = 0;
            synchronized (numbers) {
                numbers.append(unsettled);
            }
            unsettled.setLength(0);
        }

        private void note(Message message) throws JMSException {
            if (message instanceof TextMessage && options.containsKey("numbers")) {
                unsettled.append(((TextMessage) message).getText().split(" ", 2)[0]).append(',');
            }
        }

        String numbers() {
            synchronized (numbers) {
                return numbers.toString();
            }
        }

        String counts() {
            return String.join("\t", "sent=" + sent, "received=" + received, "acknowledged=" + acknowledged,
                "returned=" + returned, "last_ack=" + lastAck, "stuck_since=" + firstStuck,
                "last_return=" + lastReturn);
        }

        void close() throws Exception {
            ending.countDown();
            if (mode.equals("produce")) {
                puller.join(5000);
            }
            if (connection != null) {
                connection.close();
            }
            if (factory != null) {
                factory.close();
            }
        }
    }
}
