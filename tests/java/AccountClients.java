import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.artemis.jms.client.ActiveMQXAConnectionFactory;

/**
 * Many small clients of one broker in one process, which count what they did: what each place (a queue or an address)
 * was sent, what was acknowledged there, committed, rolled back, given back ... Driven by lines on stdin; each command
 * is answered by one line that begins with its number. Commands: NUMBER TAB broker TAB HOST TAB PORT TAB USER TAB
 * PASSWORD, or NUMBER TAB start TAB ID TAB KEY=VALUE ..., or NUMBER TAB stop|close TAB ID, or NUMBER TAB truth.
 * `stop` comes back when the client is at rest; what has to stay open then does so until `close`.
 */
public final class AccountClients {
    private static final Map<String, LongAdder> TRUTH = new ConcurrentSkipListMap<>();
    private static final Map<String, Actor> ACTORS = new ConcurrentHashMap<>();
    private static String host;
    private static int port;
    private static String user;
    private static String password;

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
            switch (words[1]) {
                case "broker":
                    host = words[2];
                    port = Integer.parseInt(words[3]);
                    user = words[4];
                    password = words[5];
                    return "ok";
                case "start":
                    Actor actor = actor(options(words));
                    ACTORS.put(words[2], actor);
                    actor.thread.start();
                    return "ok";
                case "stop":
                    ACTORS.get(words[2]).stop();
                    return "ok\t" + ACTORS.get(words[2]).trouble;
                case "close":
                    ACTORS.remove(words[2]).close();
                    return "ok";
                case "truth":
                    return "ok\t" + TRUTH.entrySet().stream()
                        .map(one -> one.getKey() + "=" + one.getValue().sum()).collect(Collectors.joining("\t"));
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

    private static Actor actor(Map<String, String> said) {
        switch (said.get("role")) {
            case "send": return new Sender(said);
            case "take": return new Taker(said);
            case "ring": return new Ring(said);
            case "xa": return new Xa(said);
            case "rpc": return new Rpc(said);
            case "stomp-send": return new StompSender(said);
            case "stomp-take": return new StompTaker(said);
            case "mqtt-send": return new MqttSender(said);
            case "mqtt-take": return new MqttTaker(said);
            default: throw new IllegalArgumentException("no role " + said.get("role"));
        }
    }

    /** One client in a thread of its own. When the broker goes it begins anew, a second later. */
    private abstract static class Actor implements Runnable {
        final Map<String, String> said;
        final String place;
        final CountDownLatch ending = new CountDownLatch(1);
        final Thread thread = new Thread(this);
        final Random dice;
        volatile String trouble = "";
        Connection connection;

        Actor(Map<String, String> said) {
            this.said = said;
            place = said.get("place");
            dice = new Random(number("seed", 1));
            thread.setDaemon(true);
        }

        abstract void play() throws Exception;

        /** What was begun and is not known to have been done. */
        void interrupted() { }

        @Override
        public void run() {
            while (true) {
                try {
                    play();
                    return;
                } catch (Exception why) {
                    interrupted();
                    if (ending.getCount() == 0) {
                        return;
                    }
                    trouble = String.valueOf(why).replace('\n', ' ').replace('\t', ' ');
                    System.err.println(place + " " + said + ": " + why);
                    count("interrupted", 1);
                    close();
                    pause(1000);
                }
            }
        }

        void stop() throws Exception {
            ending.countDown();
            thread.join(30_000);
            if (!said.containsKey("stay")) {
                close();
            }
        }

        void close() {
            try {
                if (connection != null) {
                    connection.close();
                }
            } catch (JMSException gone) {
                // the broker cleans up
            }
        }

        boolean ends() {
            return ending.getCount() == 0;
        }

        /** Whether to end. */
        boolean pause(long millis) {
            try {
                return ending.await(millis, TimeUnit.MILLISECONDS);
            } catch (InterruptedException why) {
                return true;
            }
        }

        long number(String name, long otherwise) {
            return Long.parseLong(said.getOrDefault(name, Long.toString(otherwise)));
        }

        double real(String name, double otherwise) {
            return Double.parseDouble(said.getOrDefault(name, Double.toString(otherwise)));
        }

        void count(String what, long n) {
            count(place, what, n);
        }

        void count(String where, String what, long n) {
            TRUTH.computeIfAbsent(where + " " + what, key -> new LongAdder()).add(n);
        }

        Connection connect(String name) throws JMSException {
            Connection made = factory().createConnection(user, password);
            if (!name.isEmpty()) {
                made.setClientID(name);
            }
            made.start();
            return made;
        }

        ConnectionFactory factory() throws JMSException {
            String window = said.get("window");
            switch (said.getOrDefault("protocol", "core")) {
                case "amqp":
                    return new org.apache.qpid.jms.JmsConnectionFactory("amqp://" + host + ":" + port
                        + (window == null ? "" : "?jms.prefetchPolicy.all=" + window));
                case "openwire":
                    return new org.apache.activemq.ActiveMQConnectionFactory("tcp://" + host + ":" + port
                        + (window == null ? "" : "?jms.prefetchPolicy.all=" + window));
                default:
                    return core("consumerWindowSize=" + (window == null ? "100000" : window));
            }
        }

        ActiveMQXAConnectionFactory core(String options) {
            return new ActiveMQXAConnectionFactory("tcp://" + host + ":" + port + "?reconnectAttempts=0&" + options);
        }

        /** Until the end: `send` as often as is due by the rate. */
        void paced(Send send) throws Exception {
            double rate = real("rate", 1);
            long limit = number("limit", Long.MAX_VALUE);
            long began = System.nanoTime();
            for (long done = 0; !ends();) {
                if (done < limit && done < rate * (System.nanoTime() - began) / 1e9) {
                    send.one(done++);
                } else {
                    pause(5);
                }
            }
        }

        interface Send {
            void one(long number) throws Exception;
        }
    }

    /**
     * Sends at a rate. batch: messages of a transaction, of which each rollback_every-th is rolled back; open_ms: it
     * stays open so long before its commit; leave_open: so many are sent in one that is never committed.
     */
    private static final class Sender extends Actor {
        private static final int DUPLICATE_EACH = 4;
        private final String[] colours;
        private Session session;
        private Destination to;
        private MessageProducer producer;
        private long in;
        private long transactions;
        private String life = "";
        private final Map<String, Long> inTransaction = new HashMap<>();

        Sender(Map<String, String> said) {
            super(said);
            colours = said.getOrDefault("colours", "").split(",");
        }

        @Override
        void play() throws Exception {
            connection = connect(said.getOrDefault("client", ""));
            life = place + System.nanoTime() + ".";
            boolean transacted = said.containsKey("batch") || said.containsKey("leave_open");
            session = connection.createSession(transacted, transacted ? 0 : Session.AUTO_ACKNOWLEDGE);
            to = said.containsKey("topic") ? session.createTopic(place) : session.createQueue(place);
            producer = session.createProducer(said.containsKey("anonymous") ? null : to);
            producer.setTimeToLive(number("ttl", 0));
            if (number("delay_ms", 0) > 0) {
                producer.setDeliveryDelay(number("delay_ms", 0));
            }
            if (said.containsKey("fast")) {
                producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
            }
            if (said.containsKey("leave_open")) {
                for (long i = 0; i < number("leave_open", 0); i++) {
                    send(message(i));
                }
                count("open", number("leave_open", 0));
                ending.await();
                return;
            }
            paced(this::one);
            if (transacted && in > 0) {
                commit();
            }
        }

        private void one(long number) throws JMSException {
            Message message = message(number);
            boolean twice = said.containsKey("duplicates") && number % DUPLICATE_EACH == 0;
            if (said.containsKey("duplicates")) {
                message.setStringProperty("_AMQ_DUPL_ID", life + number);
            }
            if (!said.containsKey("batch")) {
                count("tried", 1);
                try {
                    send(message);
                } catch (JMSException refused) {
                    if (!said.containsKey("refused")) {
                        throw refused;
                    }
                    count("refused", 1);
                    return;
                }
                sent(1);
                if (twice) {
                    send(message);
                    count("duplicates", 1);
                }
                return;
            }
            send(message);
            in++;
            if (in >= number("batch", 1)) {
                long every = number("rollback_every", 0);
                if (every > 0 && ++transactions % every == 0) {
                    count("unsure", in);
                    session.rollback();
                    count("unsure", -in);
                    count("rolled_back", in);
                    in = 0;
                    inTransaction.clear();
                } else if (!pause(number("open_ms", 0)) || ends()) {
                    commit();
                }
            }
        }

        private void commit() throws JMSException {
            count("tried", in);
            session.commit();
            sent(in);
            inTransaction.forEach((colour, n) -> count("sent:" + colour, n));
            inTransaction.clear();
            in = 0;
        }

        @Override
        void interrupted() {
            count("cut", in);
            in = 0;
            inTransaction.clear();
        }

        private void sent(long n) {
            count("sent", n);
        }

        private Message message(long number) throws JMSException {
            Message message;
            if (said.containsKey("large")) {
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBytes(new byte[(int) number("size", 100)]);
                message = bytes;
            } else {
                message = session.createTextMessage("x".repeat((int) number("size", 100)));
            }
            String colour = colours[(int) (number % colours.length)];
            if (!colour.isEmpty()) {
                message.setStringProperty("colour", colour);
                if (said.containsKey("batch")) {
                    inTransaction.merge(colour, 1L, Long::sum);
                } else {
                    count("sent:" + colour, 1);
                }
            }
            if (said.containsKey("keys")) {
                message.setStringProperty("key", "k" + number % number("keys", 1));
            }
            if (said.containsKey("groups")) {
                message.setStringProperty("JMSXGroupID", "g" + number % number("groups", 1));
            }
            if (said.containsKey("poison_every") && number % number("poison_every", 1) == 0) {
                message.setStringProperty("poison", "yes");
                count("poisoned", 1);
            }
            return message;
        }

        private void send(Message message) throws JMSException {
            if (said.containsKey("anonymous")) {
                producer.send(to, message);
            } else {
                producer.send(message);
            }
        }
    }

    /**
     * Consumes. mode: auto, dups, client, individual, transacted. batch: acknowledged or committed together; rollback:
     * share of the batches that are rolled back. leak_every: each so many-th is never acknowledged (individual);
     * shuffle: so many are in work at once, and acknowledged in any order. life_ms, limit: closes after so long, or so
     * many, and comes again after pause_ms. hold: never acknowledges, closes (or is cut off) when it has so many.
     */
    private static final class Taker extends Actor {
        private Session session;
        private final List<Message> working = new ArrayList<>();
        private Message last;
        private long open;
        private long taken;
        private int lives;
        private long leaked;

        Taker(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            boolean again = said.containsKey("life_ms") || said.containsKey("limit") || said.containsKey("hold");
            do {
                live();
                if (again || !said.containsKey("stay")) {
                    close();
                }
            } while (again && !pause(number("pause_ms", 0)));
        }

        private void live() throws Exception {
            String client = said.getOrDefault("client", "");
            connection = connect(client.isEmpty() || !said.containsKey("numbered") ? client : client + lives++);
            String mode = said.getOrDefault("mode", "auto");
            session = connection.createSession(mode.equals("transacted"), acknowledgement(mode));
            Destination from = said.containsKey("topic")
                ? session.createTopic(said.get("topic")) : session.createQueue(said.getOrDefault("from", place));
            MessageConsumer consumer = session.createConsumer(from, said.get("selector"));
            long until = System.currentTimeMillis() + number("life_ms", Long.MAX_VALUE / 2);
            long limit = number("limit", number("hold", Long.MAX_VALUE));
            for (taken = 0; !ends() && taken < limit && System.currentTimeMillis() < until;) {
                Message message = consumer.receive(200);
                if (message != null) {
                    taken++;
                    last = message;
                    pause(number("work_ms", 0));
                    take(message, mode);
                }
            }
            if (said.containsKey("hold")) {
                count("given_back", open);
                count("crashes", 1);
                open = 0;
                return;
            }
            while (!working.isEmpty()) {
                settleOne(working.remove(0));
            }
            if (open > 0) {
                settle(mode);
            }
        }

        private static int acknowledgement(String mode) {
            switch (mode) {
                case "client": return Session.CLIENT_ACKNOWLEDGE;
                case "dups": return Session.DUPS_OK_ACKNOWLEDGE;
                case "individual": return 101;
                case "transacted": return Session.SESSION_TRANSACTED;
                default: return Session.AUTO_ACKNOWLEDGE;
            }
        }

        private void take(Message message, String mode) throws JMSException {
            if (mode.equals("auto") || mode.equals("dups")) {
                count("settled", 1);
            } else if (mode.equals("individual")) {
                if (said.containsKey("leak_every") && taken % number("leak_every", 1) == 0) {
                    count("leaked", 1);
                    leaked++;
                    return;
                }
                working.add(message);
                if (working.size() > number("shuffle", 0)) {
                    settleOne(working.remove(dice.nextInt(working.size())));
                }
            } else if (message.propertyExists("poison")) {
                count("given_back", 1 + open);
                session.rollback();
                open = 0;
            } else if (++open >= number("batch", 1) && !said.containsKey("hold")) {
                settle(mode);
            }
        }

        private void settleOne(Message message) throws JMSException {
            count("unsure", 1);
            message.acknowledge();
            count("unsure", -1);
            count("settled", 1);
        }

        private void settle(String mode) throws JMSException {
            count("unsure", open);
            if (mode.equals("transacted") && dice.nextDouble() < real("rollback", 0)) {
                session.rollback();
                count("given_back", open);
            } else {
                if (mode.equals("transacted")) {
                    session.commit();
                } else {
                    last.acknowledge();
                }
                count("settled", open);
            }
            count("unsure", -open);
            open = 0;
        }

        @Override
        void interrupted() {
            count("leaked", -leaked);
            leaked = open = 0;
            working.clear();
        }
    }

    /**
     * Plays a ring alone: one producer that waits for each answer, and two consumers in turn that get exactly what they
     * ask for. So the ring's content is known at each step, and who made it evict.
     */
    private static final class Ring extends Actor {
        private long ready;
        private long held;
        private Session sending;
        private MessageProducer producer;

        Ring(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            connection = connect("");
            sending = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            producer = sending.createProducer(sending.createQueue(place));
            boolean transacted = said.containsKey("rollback");
            long size = number("size", 3);
            for (int turn = 0; !ends(); turn = 1 - turn) {
                String name = place + "-c" + turn;
                try (Connection taking = core("consumerWindowSize=0").createConnection(user, password)) {
                    taking.setClientID(name);
                    taking.start();
                    Session session = taking.createSession(transacted, Session.CLIENT_ACKNOWLEDGE);
                    MessageConsumer consumer = session.createConsumer(session.createQueue(place));
                    Message last = null;
                    for (int step = 0; step < number("steps", 3) && !ends(); step++) {
                        send(dice.nextInt((int) size + 2));
                        for (long n = dice.nextInt((int) ready + 1); n > 0; n--) {
                            last = consumer.receive(5000);
                            if (last == null) {
                                throw new IllegalStateException("the ring holds less than it must");
                            }
                            ready--;
                            held++;
                        }
                        if (step > 0 && dice.nextInt(4) == 0 && held > 0) {
                            settle(session, last, transacted);
                        }
                        pause(number("step_ms", 1000));
                    }
                    if (transacted) {
                        session.rollback();
                        give(name, "rolled_back_takes");
                    }
                }
                give(name, "closes");
                pause(number("pause_ms", 0));
            }
            count("there", ready);
        }

        @Override
        void interrupted() {
            give("(restart)", "restarts");
        }

        private void send(long n) throws JMSException {
            for (long i = 0; i < n; i++) {
                producer.send(sending.createTextMessage("x"));
                count("sent", 1);
                ready++;
                if (ready > number("size", 3)) {
                    ready--;
                    count("evicted", 1);
                    count("evicted:arrivals", 1);
                }
            }
        }

        private void settle(Session session, Message last, boolean transacted) throws JMSException {
            if (transacted) {
                session.commit();
            } else {
                last.acknowledge();
            }
            count("settled", held);
            held = 0;
        }

        /** All that is held is ready again, but for what has no room. */
        private void give(String client, String how) {
            long lost = Math.max(0, ready + held - number("size", 3));
            if (held > 0) {
                count(how, 1);
            }
            count("given_back", held);
            count("evicted", lost);
            count("evicted:" + client, lost);
            ready += held - lost;
            held = 0;
        }
    }

    /** XA over Core: takes, prepares, and commits after a while; or (in_doubt) leaves after the first prepare. */
    private static final class Xa extends Actor {
        private long prepared;

        Xa(Map<String, String> said) {
            super(said);
        }

        /** It begins with new transactions: what was prepared stays in doubt, if its commit did not arrive. */
        @Override
        void interrupted() {
            count("cut", prepared);
            prepared = 0;
        }

        @Override
        void play() throws Exception {
            XAConnection made = core("consumerWindowSize=0").createXAConnection(user, password);
            connection = made;
            made.start();
            XASession session = made.createXASession();
            MessageConsumer consumer = session.createConsumer(session.createQueue(place));
            XAResource resource = session.getXAResource();
            long wanted = number("in_doubt", number("batch", 10));
            while (!ends()) {
                Xid xid = new Id((place + System.nanoTime()).getBytes(StandardCharsets.UTF_8));
                resource.start(xid, XAResource.TMNOFLAGS);
                long taken = 0;
                while (taken < wanted && !(ends() && !said.containsKey("in_doubt"))) {
                    taken += consumer.receive(200) == null ? 0 : 1;
                }
                resource.end(xid, XAResource.TMSUCCESS);
                prepared = taken;
                resource.prepare(xid);
                if (said.containsKey("in_doubt")) {
                    count("in_doubt", taken);
                    connection.close();
                    ending.await();
                    return;
                }
                pause(100 + dice.nextInt(1500));
                resource.commit(xid, false);
                prepared = 0;
                count("settled", taken);
            }
        }
    }

    private static final class Id implements Xid {
        private final byte[] name;

        Id(byte[] name) {
            this.name = name.length > 64 ? java.util.Arrays.copyOf(name, 64) : name;
        }

        @Override
        public int getFormatId() {
            return 1;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return name;
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1};
        }
    }

    /** Asks and waits for each answer, on a temporary queue; the service answers with one producer for all. */
    private static final class Rpc extends Actor {
        Rpc(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            connection = connect(said.get("client"));
            Session asking = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session serving = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer answers = serving.createProducer(null);
            serving.createConsumer(serving.createQueue(place)).setMessageListener(request -> {
                try {
                    answers.send(request.getJMSReplyTo(), serving.createTextMessage("yes"));
                    count("settled", 1);
                } catch (JMSException gone) {
                    count("unanswered", 1);
                }
            });
            MessageProducer producer = asking.createProducer(asking.createQueue(place));
            Destination replies = asking.createTemporaryQueue();
            MessageConsumer consumer = asking.createConsumer(replies);
            paced(number -> {
                Message request = asking.createTextMessage("?");
                request.setJMSReplyTo(replies);
                producer.send(request);
                count("sent", 1);
                consumer.receive(5000);
            });
        }
    }

    /** The frames of STOMP 1.2. */
    private static final class Stomp implements Closeable {
        private final Socket socket = new Socket(host, port);
        private final DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(socket.getInputStream()));

        Stomp(String client) throws IOException {
            socket.setTcpNoDelay(true);
            send("CONNECT", "", "accept-version:1.2", "host:x", "login:" + user, "passcode:" + password,
                "client-id:" + client);
            expect("CONNECTED");
        }

        void send(String command, String body, String... headers) throws IOException {
            String frame = command + "\n" + String.join("\n", headers) + "\n\n" + body + "\0";
            socket.getOutputStream().write(frame.getBytes(StandardCharsets.UTF_8));
        }

        /** So that the broker does not take it for gone. */
        void beat() throws IOException {
            socket.getOutputStream().write('\n');
        }

        /** The next frame, null after `millis` without one. */
        Map<String, String> read(int millis) throws IOException {
            socket.setSoTimeout(millis);
            int first;
            try {
                first = in.read();
                while (first == '\n' || first == '\r') {
                    first = in.read();
                }
            } catch (java.net.SocketTimeoutException none) {
                return null;
            }
            socket.setSoTimeout(30_000);
            if (first < 0) {
                throw new IOException("the broker closed the connection");
            }
            Map<String, String> frame = new HashMap<>();
            frame.put("", (char) first + line());
            for (String line = line(); !line.isEmpty(); line = line()) {
                frame.put(line.substring(0, line.indexOf(':')), line.substring(line.indexOf(':') + 1));
            }
            int length = Integer.parseInt(frame.getOrDefault("content-length", "-1"));
            if (length >= 0) {
                in.readFully(new byte[length]);
            }
            while (in.read() != 0) {
                // the body
            }
            return frame;
        }

        Map<String, String> expect(String command) throws IOException {
            Map<String, String> frame = read(30_000);
            if (frame == null || !frame.get("").equals(command)) {
                throw new IOException("no " + command + " but " + frame);
            }
            return frame;
        }

        private String line() throws IOException {
            ByteArrayOutputStream line = new ByteArrayOutputStream();
            for (int next = in.read(); next != '\n'; next = in.read()) {
                if (next < 0) {
                    throw new IOException("the broker closed the connection");
                }
                if (next != '\r') {
                    line.write(next);
                }
            }
            return line.toString(StandardCharsets.UTF_8);
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    private static final class StompSender extends Actor {
        StompSender(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            try (Stomp stomp = new Stomp(said.get("client"))) {
                paced(number -> {
                    count("tried", 1);
                    stomp.send("SEND", "x".repeat(100), "destination:" + place, "destination-type:ANYCAST",
                        "persistent:true", "receipt:r");
                    stomp.expect("RECEIPT");
                    count("sent", 1);
                });
            }
        }
    }

    private static final class StompTaker extends Actor {
        StompTaker(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            try (Stomp stomp = new Stomp(said.get("client"))) {
                stomp.send("SUBSCRIBE", "", "id:1", "destination:" + place, "subscription-type:ANYCAST",
                    "ack:client-individual");
                while (!ends()) {
                    Map<String, String> frame = stomp.read(200);
                    if (frame != null) {
                        stomp.send("ACK", "", "id:" + frame.get("ack"), "receipt:r");
                        // What is delivered meanwhile comes before the receipt, and is acknowledged with the next.
                        settle(stomp);
                    } else {
                        stomp.beat();
                    }
                }
            }
        }

        private void settle(Stomp stomp) throws IOException {
            for (long waiting = 1; waiting > 0;) {
                Map<String, String> frame = stomp.read(30_000);
                if (frame.get("").equals("RECEIPT")) {
                    count("settled", 1);
                    waiting--;
                } else {
                    stomp.send("ACK", "", "id:" + frame.get("ack"), "receipt:r");
                    waiting++;
                }
            }
        }
    }

    /** The packets of MQTT 3.1.1 that QoS 1 needs. */
    private static final class Mqtt implements Closeable {
        private final Socket socket = new Socket(host, port);
        private final DataInputStream in = new DataInputStream(new java.io.BufferedInputStream(socket.getInputStream()));
        int kind;

        Mqtt(String client) throws IOException {
            socket.setTcpNoDelay(true);
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF("MQTT");
            out.writeByte(4);
            out.writeByte(0xC0); // user, password; the session stays
            out.writeShort(0);
            out.writeUTF(client);
            out.writeUTF(user);
            out.writeUTF(password);
            write(0x10, bytes.toByteArray());
            if (read(30_000) == null || kind != 0x20) {
                throw new IOException("MQTT: not connected");
            }
        }

        void write(int head, byte[] body) throws IOException {
            ByteArrayOutputStream packet = new ByteArrayOutputStream();
            packet.write(head);
            int length = body.length;
            do {
                packet.write(length > 127 ? length % 128 | 128 : length);
                length /= 128;
            } while (length > 0);
            packet.write(body);
            socket.getOutputStream().write(packet.toByteArray());
        }

        /** The body of the next packet, whose head is `kind`; null after `millis` without one. */
        byte[] read(int millis) throws IOException {
            socket.setSoTimeout(millis);
            try {
                kind = in.readUnsignedByte();
            } catch (java.net.SocketTimeoutException none) {
                return null;
            }
            socket.setSoTimeout(30_000);
            int length = 0;
            int shift = 0;
            int next;
            do {
                next = in.readUnsignedByte();
                length |= (next & 127) << shift;
                shift += 7;
            } while (next > 127);
            byte[] body = new byte[length];
            in.readFully(body);
            return body;
        }

        void publish(String topic, int id) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF(topic);
            out.writeShort(id);
            out.writeBytes("x".repeat(100));
            write(0x32, bytes.toByteArray());
        }

        void subscribe(String topic) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeShort(1);
            out.writeUTF(topic);
            out.writeByte(1);
            write(0x82, bytes.toByteArray());
        }

        @Override
        public void close() throws IOException {
            write(0xE0, new byte[0]);
            socket.close();
        }
    }

    private static final class MqttSender extends Actor {
        MqttSender(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            try (Mqtt mqtt = new Mqtt(said.get("client"))) {
                paced(number -> {
                    count("tried", 1);
                    mqtt.publish(place.replace('.', '/'), (int) (number % 60_000) + 1);
                    if (mqtt.read(30_000) == null || mqtt.kind != 0x40) {
                        throw new IOException("MQTT: no PUBACK");
                    }
                    count("sent", 1);
                });
            }
        }
    }

    private static final class MqttTaker extends Actor {
        MqttTaker(Map<String, String> said) {
            super(said);
        }

        @Override
        void play() throws Exception {
            try (Mqtt mqtt = new Mqtt(said.get("client"))) {
                mqtt.subscribe(said.get("topic").replace('.', '/'));
                while (!ends()) {
                    byte[] body = mqtt.read(200);
                    if (body != null && mqtt.kind >> 4 == 3) {
                        int topic = (body[0] & 255) << 8 | body[1] & 255;
                        mqtt.write(0x40, new byte[] {body[2 + topic], body[3 + topic]});
                        count("settled", 1);
                    }
                }
                pause(0);
                Thread.sleep(500); // the last acknowledgements have no answer
            }
        }
    }
}
