import com.sun.messaging.ConnectionConfiguration;
import com.sun.messaging.ConnectionFactory;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Consumers and producers of an OpenMQ broker, healthy and faulty ones, for tests.
 *
 * <p>Arguments: {@code URL USER} and then roles, each {@code consume} or {@code produce} followed by key=value. The password
 * is the first line of standard input. Keys that begin with {@code imq} go to the connection factory. Roles with the
 * same {@code connection} share one. Prints {@code ready}; answers each further line of input with a line of counts,
 * {@code name.count=number ...}, and ends when its input does.
 */
public final class OpenMqClient {
    private static final Map<String, Connection> CONNECTIONS = new HashMap<>();
    private static final Map<String, Integer> MODES =
            Map.of(
                    "auto", Session.AUTO_ACKNOWLEDGE,
                    "client", Session.CLIENT_ACKNOWLEDGE,
                    "dups", Session.DUPS_OK_ACKNOWLEDGE,
                    "transacted", Session.SESSION_TRANSACTED);

    private final String url;
    private final String user;
    private final String password;

    private OpenMqClient(String url, String user, String password) {
        this.url = url;
        this.user = user;
        this.password = password;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        OpenMqClient clients = new OpenMqClient(args[0], args[1], input.readLine());
        List<Role> roles = new ArrayList<>();
        for (Options options : parsed(args)) {
            Role role = options.text("role", "").equals("consume") ? new Consumer(options) : new Producer(options);
            role.clients = clients;
            roles.add(role);
        }
        for (Role role : roles) {
            if (role.options.has("wait")) {
                continue;
            }
            role.open(clients);
        }
        for (Role role : roles) {
            Thread thread = new Thread(role, role.options.text("name", "role"));
            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (input.readLine() != null) {
            StringBuilder line = new StringBuilder();
            for (Role role : roles) {
                role.counts().forEach((count, value) ->
                        line.append(role.options.text("name", "role")).append('.').append(count).append('=')
                                .append(value).append(' '));
            }
            System.out.println(line.toString().trim());
        }
        Runtime.getRuntime().halt(0);
    }

    private static List<Options> parsed(String[] args) {
        List<Options> roles = new ArrayList<>();
        for (int i = 2; i < args.length; i++) {
            if (args[i].equals("consume") || args[i].equals("produce")) {
                roles.add(new Options(new HashMap<>(Map.of("role", args[i]))));
            } else {
                int equals = args[i].indexOf('=');
                roles.get(roles.size() - 1).values.put(args[i].substring(0, equals), args[i].substring(equals + 1));
            }
        }
        return roles;
    }

    /** The connection of a role; a named one is made once. */
    Connection connection(Options options) throws JMSException {
        String name = options.text("connection", "");
        if (!name.isEmpty() && CONNECTIONS.containsKey(name)) {
            return CONNECTIONS.get(name);
        }
        ConnectionFactory factory = new ConnectionFactory();
        factory.setProperty(ConnectionConfiguration.imqAddressList, url);
        for (Map.Entry<String, String> setting : options.values.entrySet()) {
            if (setting.getKey().startsWith("imq")) {
                factory.setProperty(setting.getKey(), setting.getValue());
            }
        }
        Connection connection = factory.createConnection(user, password);
        if (options.has("clientid")) {
            connection.setClientID(options.text("clientid", ""));
        }
        if (!options.text("start", "true").equals("false")) {
            connection.start();
        }
        if (!name.isEmpty()) {
            CONNECTIONS.put(name, connection);
        }
        return connection;
    }

    static Destination destination(Session session, Options options) throws JMSException {
        return options.has("topic")
                ? session.createTopic(options.text("topic", ""))
                : session.createQueue(options.text("queue", ""));
    }

    private record Options(Map<String, String> values) {
        boolean has(String key) {
            return values.containsKey(key);
        }

        String text(String key, String otherwise) {
            return values.getOrDefault(key, otherwise);
        }

        long number(String key, long otherwise) {
            return has(key) ? Long.parseLong(values.get(key)) : otherwise;
        }
    }

    private abstract static class Role implements Runnable {
        final Options options;

        Role(Options options) {
            this.options = options;
        }

        OpenMqClient clients;

        abstract void open(OpenMqClient clients) throws JMSException;

        abstract Map<String, Long> counts();

        abstract void work() throws Exception;

        @Override
        public void run() {
            try {
                if (options.has("wait")) {
                    Thread.sleep(options.number("wait", 0));
                    open(clients);
                }
                work();
            } catch (Exception error) {
                System.err.println(options.text("name", "role") + ": " + error);
            }
        }
    }

    /**
     * ack: auto, client, dups, transacted. delay: ms of work a message. hang: hangs for ever after so many. acknowledge,
     * commit: after so many, 0 never. rollback: after each. receive=never: takes nothing. cycle: reconnects every so
     * many ms. listener=true: by listener in place of receive(). wait: joins after so many ms. leave: closes after so
     * many. selector, durable, shared (a name; with durable a durable one): as they say.
     *
     * <p>At a rhythm of so many ms: visit (connects, takes what comes within 200 ms, at most `take`, and leaves), pull
     * (takes what is there), commitms (commits). returns: of a thousand messages so many are rolled back, with ack=client
     * recovered. forget=true: does not remember which messages it got.
     */
    private static final class Consumer extends Role {
        private final AtomicLong got = new AtomicLong();
        private final AtomicLong done = new AtomicLong();
        private final AtomicLong rounds = new AtomicLong();
        private final AtomicLong returned = new AtomicLong();
        private final Set<String> distinct = ConcurrentHashMap.newKeySet();
        private final Random dice = new Random(options.text("name", "").hashCode());
        private Connection connection;
        private Session session;
        private MessageConsumer consumer;

        Consumer(Options options) {
            super(options);
        }

        @Override
        void open(OpenMqClient clients) throws JMSException {
            connection = clients.connection(options);
            session = connection.createSession(MODES.get(options.text("ack", "auto")));
            Destination destination = destination(session, options);
            String selector = options.values.get("selector");
            if (options.has("shared")) {
                consumer = options.has("durable")
                        ? session.createSharedDurableConsumer((Topic) destination, options.text("shared", ""), selector)
                        : session.createSharedConsumer((Topic) destination, options.text("shared", ""), selector);
            } else if (options.has("durable")) {
                consumer = session.createDurableSubscriber(
                        (Topic) destination, options.text("durable", ""), selector, false);
            } else {
                consumer = session.createConsumer(destination, selector);
            }
            if (options.text("listener", "false").equals("true")) {
                consumer.setMessageListener(message -> {
                    try {
                        handle(message);
                    } catch (Exception error) {
                        throw new IllegalStateException(error);
                    }
                });
            }
        }

        @Override
        void work() throws Exception {
            if (options.text("receive", "").equals("never") || options.text("listener", "false").equals("true")) {
                return;
            }
            for (String rhythm : new String[] {"visit", "pull", "commitms"}) {
                if (options.has(rhythm)) {
                    inRhythm(rhythm);
                }
            }
            long cycle = options.number("cycle", 0);
            long leave = options.number("leave", Long.MAX_VALUE);
            long end = System.currentTimeMillis() + cycle;
            while (true) {
                Message message = received(cycle);
                if (message != null) {
                    handle(message);
                }
                if (got.get() >= leave) {
                    connection.close();
                    return;
                }
                if (cycle > 0 && System.currentTimeMillis() > end) {
                    connection.close();
                    open(clients);
                    end = System.currentTimeMillis() + cycle;
                }
            }
        }

        /** The next one. Skips those whose acknowledgement fails: a limit has removed it, or the broker is restarted. */
        private Message received(long cycle) throws JMSException {
            while (true) {
                try {
                    return cycle > 0 ? consumer.receive(200) : consumer.receive();
                } catch (JMSException refused) {
                    if (!Set.of("C4000", "C4001", "C4036").contains(refused.getErrorCode())) {
                        throw refused;
                    }
                }
            }
        }

        private void inRhythm(String rhythm) throws Exception {
            long every = options.number(rhythm, 0);
            long next = System.currentTimeMillis() + every;
            if (rhythm.equals("visit")) {
                connection.close();
            }
            for (; ; next += every) {
                if (rhythm.equals("commitms")) {
                    takeUntil(next);
                    session.commit();
                    done.set(got.get());
                } else {
                    Thread.sleep(Math.max(0, next - System.currentTimeMillis()));
                    if (rhythm.equals("visit")) {
                        open(clients);
                    }
                    takeUntil(System.currentTimeMillis() + 200);
                    if (rhythm.equals("visit")) {
                        connection.close();
                    }
                }
                rounds.incrementAndGet();
            }
        }

        private void takeUntil(long end) throws Exception {
            long most = options.number("take", Long.MAX_VALUE);
            for (long taken = 0; taken < most; taken++) {
                long left = end - System.currentTimeMillis();
                Message message = left > 0 ? consumer.receive(left) : null;
                if (message == null) {
                    return;
                }
                handle(message);
            }
        }

        private boolean isReturned() {
            return dice.nextInt(1000) < options.number("returns", 0);
        }

        private void handle(Message message) throws Exception {
            long number = got.incrementAndGet();
            if (!options.has("forget")) {
                distinct.add(message.getJMSMessageID());
            }
            Thread.sleep(options.number("delay", 0));
            if (options.has("hang") && number >= options.number("hang", 0)) {
                Thread.sleep(Long.MAX_VALUE);
            }
            if (session.getTransacted()) {
                settle(number);
            } else if (session.getAcknowledgeMode() == Session.CLIENT_ACKNOWLEDGE && isReturned()) {
                session.recover();
                returned.incrementAndGet();
            } else if (session.getAcknowledgeMode() == Session.CLIENT_ACKNOWLEDGE) {
                long every = options.number("acknowledge", 1);
                if (every > 0 && number % every == 0) {
                    message.acknowledge();
                    done.set(number);
                }
            } else {
                done.set(number);
            }
        }

        private void settle(long number) throws JMSException {
            if (options.has("rollback")) {
                session.rollback();
                return;
            }
            if (isReturned()) {
                session.rollback();
                returned.incrementAndGet();
                return;
            }
            long every = options.has("commitms") ? 0 : options.number("commit", 1);
            if (every > 0 && number % every == 0) {
                session.commit();
                done.set(number);
            }
        }

        @Override
        Map<String, Long> counts() {
            Map<String, Long> counts = new LinkedHashMap<>();
            counts.put("got", got.get());
            counts.put("done", done.get());
            counts.put("distinct", (long) distinct.size());
            counts.put("rounds", rounds.get());
            counts.put("returned", returned.get());
            return counts;
        }
    }

    /**
     * rate: messages a second, 0 as fast as it goes. burst, every: so many at once, every so many ms. count: then stops.
     * size: bytes. ttl, later: ms to live, ms until they are delivered. persistent. commit: after so many, 0 never.
     * groups: the property `who` is c0, c1 ... by chance.
     */
    private static final class Producer extends Role {
        private final AtomicLong sent = new AtomicLong();
        private final AtomicLong failed = new AtomicLong();
        private final Random dice = new Random(options.text("name", "").hashCode());
        private volatile long sendingSince;
        private Session session;
        private MessageProducer producer;

        Producer(Options options) {
            super(options);
        }

        @Override
        void open(OpenMqClient clients) throws JMSException {
            Connection connection = clients.connection(options);
            session = connection.createSession(
                    options.has("commit") ? Session.SESSION_TRANSACTED : Session.AUTO_ACKNOWLEDGE);
            producer = session.createProducer(destination(session, options));
            producer.setDeliveryMode(
                    options.text("persistent", "false").equals("true")
                            ? DeliveryMode.PERSISTENT
                            : DeliveryMode.NON_PERSISTENT);
            producer.setTimeToLive(options.number("ttl", 0));
            producer.setDeliveryDelay(options.number("later", 0));
            producer.setPriority((int) options.number("priority", 4));
        }

        @Override
        void work() throws Exception {
            long rate = options.number("rate", 0);
            long burst = options.number("burst", 1);
            double pause = options.has("every") ? options.number("every", 0) : rate > 0 ? 1000.0 / rate : 0;
            long count = options.number("count", Long.MAX_VALUE);
            TextMessage message = session.createTextMessage("x".repeat((int) options.number("size", 100)));
            double next = System.currentTimeMillis();
            for (long turn = 1; sent.get() + failed.get() < count; turn++) {
                for (long i = 0; i < burst && sent.get() + failed.get() < count; i++) {
                    if (options.has("groups")) {
                        message.setStringProperty("who", "c" + dice.nextInt((int) options.number("groups", 1)));
                    }
                    send(message);
                }
                next += pause;
                long wait = (long) next - System.currentTimeMillis();
                if (wait > 0) {
                    Thread.sleep(wait);
                }
            }
        }

        private void send(TextMessage message) throws JMSException {
            sendingSince = System.currentTimeMillis();
            try {
                producer.send(message);
                long number = sent.incrementAndGet();
                long every = options.number("commit", 0);
                if (every > 0 && number % every == 0) {
                    session.commit();
                }
            } catch (JMSException error) {
                failed.incrementAndGet();
            } finally {
                sendingSince = 0;
            }
        }

        @Override
        Map<String, Long> counts() {
            long since = sendingSince;
            Map<String, Long> counts = new LinkedHashMap<>();
            counts.put("sent", sent.get());
            counts.put("failed", failed.get());
            counts.put("blocked_ms", since == 0 ? 0 : System.currentTimeMillis() - since);
            return counts;
        }
    }
}
