package penstock.jmx;

import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.management.Attribute;
import javax.management.InstanceNotFoundException;
import javax.management.JMException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.RuntimeMBeanException;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** One connection to a broker's MBeans. It reads attributes and calls the listings named here, nothing else. */
final class Broker implements AutoCloseable {
    private static final Map<String, Set<String>> ALLOWED = Map.of(
            "com.sun.messaging.jms.server",
            Set.of("getConsumerInfo", "getConsumerInfoByID", "getConsumerIDs", "getProducerInfo", "getTransactionInfo"),
            "org.apache.activemq.artemis",
            Set.of("listConsumers", "listQueues", "listAddresses", "listConnections", "listSessions", "listProducers",
                    "getAddressSettingsAsJSON", "listPreparedTransactions"));

    private final JMXConnector connector;
    private final MBeanServerConnection server;

    private Broker(JMXConnector connector) throws IOException {
        this.connector = connector;
        this.server = connector.getMBeanServerConnection();
    }

    /** Throws SecurityException for a refused login. */
    static Broker connect(String url, String user, String password) throws IOException {
        Map<String, Object> environment = new HashMap<>();
        if (user != null) {
            environment.put(JMXConnector.CREDENTIALS, new String[] {user, password == null ? "" : password});
        }
        return new Broker(JMXConnectorFactory.connect(new JMXServiceURL(url), environment));
    }

    /** Appends the answer to one request; an IOException means that the connection is gone. */
    void answer(StringBuilder out, Map<?, ?> request) throws IOException {
        int begin = out.length();
        try {
            out.append("{\"status\":200,\"value\":");
            if ("read".equals(request.get("type"))) {
                read(out, request);
            } else if ("exec".equals(request.get("type"))) {
                Json.write(out, call(request));
            } else {
                throw new Refused("a request of type " + request.get("type") + " is not allowed");
            }
            out.append('}');
        } catch (Refused | SecurityException error) {
            fail(out, begin, 403, error);
        } catch (InstanceNotFoundException error) {
            fail(out, begin, 404, error);
        } catch (JMException | RuntimeMBeanException | ClassCastException | IllegalArgumentException error) {
            fail(out, begin, 500, error);
        }
    }

    private void read(StringBuilder out, Map<?, ?> request) throws IOException, JMException {
        ObjectName name = new ObjectName((String) request.get("mbean"));
        String[] attributes = ((List<?>) request.get("attribute")).toArray(new String[0]);
        if (!name.isPattern()) {
            Json.writeMap(out, attributes(name, attributes));
            return;
        }
        char separator = '{';
        for (ObjectName found : server.queryNames(name, null)) {
            int begin = out.length();
            out.append(separator);
            Json.writeText(out, found.getCanonicalName());
            out.append(':');
            try {
                Json.writeMap(out, attributes(found, attributes));
                separator = ',';
            } catch (InstanceNotFoundException gone) { // between the query and now
                out.setLength(begin);
            }
        }
        if (separator == '{') {
            throw new InstanceNotFoundException(name.toString());
        }
        out.append('}');
    }

    private Map<String, Object> attributes(ObjectName name, String[] wanted) throws IOException, JMException {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Attribute attribute : server.getAttributes(name, wanted).asList()) {
            found.put(attribute.getName(), attribute.getValue());
        }
        return found;
    }

    private Object call(Map<?, ?> request) throws IOException, JMException {
        ObjectName name = new ObjectName((String) request.get("mbean"));
        String signature = (String) request.get("operation");
        String operation = signature.split("\\(", 2)[0];
        if (!ALLOWED.getOrDefault(name.getDomain(), Set.of()).contains(operation)) {
            throw new Refused(operation + " of " + name.getDomain() + " is not allowed");
        }
        List<?> given = (List<?>) request.get("arguments");
        String[] types = new String[given.size()];
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            boolean whole = given.get(i) instanceof Long;
            types[i] = whole ? "int" : "java.lang.String";
            arguments[i] = whole ? (Object) ((Long) given.get(i)).intValue() : given.get(i);
        }
        return server.invoke(name, operation, arguments, types);
    }

    private static void fail(StringBuilder out, int begin, int status, Exception error) {
        out.setLength(begin);
        out.append("{\"status\":").append(status).append(",\"error_type\":");
        Json.writeText(out, error.getClass().getName());
        out.append(",\"error\":");
        Json.writeText(out, String.valueOf(error.getMessage()));
        out.append('}');
    }

    @Override
    public void close() {
        try {
            connector.close();
        } catch (IOException gone) {
            // it is closed then
        }
    }

    /** What this program does not do, whoever asks. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Refused(String message) {
            super(message);
        }
    }
}
