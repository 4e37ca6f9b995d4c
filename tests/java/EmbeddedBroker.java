import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;

/** A broker without console: one acceptor for all protocols, one user. Settings: the properties file in args[0]. */
public final class EmbeddedBroker {
    private static final String ROLE = "amq";

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(args[0]))) {
            settings.load(file);
        }
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfiguration(configuration(settings));
        broker.setSecurityManager(oneUser(settings.getProperty("user"), settings.getProperty("password")));
        broker.setMbeanServer(ManagementFactory.getPlatformMBeanServer());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(broker)));
        broker.start();
        System.out.println("EmbeddedBroker is ready");
    }

    private static Configuration configuration(Properties settings) throws Exception {
        String data = settings.getProperty("data");
        Configuration configuration = new ConfigurationImpl()
            .setName(settings.getProperty("name"))
            .setJournalType(JournalType.NIO)
            .setJournalDatasync(false)
            .setJournalDirectory(data + "/journal")
            .setBindingsDirectory(data + "/bindings")
            .setPagingDirectory(data + "/paging")
            .setLargeMessagesDirectory(data + "/large-messages")
            .setMaxDiskUsage(99)
            .addAcceptorConfiguration("artemis", settings.getProperty("acceptor"));
        configuration.putSecurityRoles("#", Set.of(everything()));
        return configuration;
    }

    /** send, consume, create and delete durable and other queues, manage, browse, create and delete addresses */
    private static Role everything() {
        return new Role(ROLE, true, true, true, true, true, true, true, true, true, true, false, false);
    }

    private static ActiveMQJAASSecurityManager oneUser(String user, String password) {
        SecurityConfiguration users = new SecurityConfiguration();
        users.addUser(user, password);
        users.addRole(user, ROLE);
        return new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), users);
    }

    private static void stop(EmbeddedActiveMQ broker) {
        try {
            broker.stop();
        } catch (Exception trouble) {
            trouble.printStackTrace();
        }
    }
}
