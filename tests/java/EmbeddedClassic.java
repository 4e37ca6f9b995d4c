import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.activemq.broker.BrokerService;

/** An ActiveMQ Classic without console: one acceptor of OpenWire. Settings: the properties file in args[0]. */
public final class EmbeddedClassic {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        try (InputStream file = Files.newInputStream(Path.of(args[0]))) {
            settings.load(file);
        }
        BrokerService broker = new BrokerService();
        broker.setBrokerName(settings.getProperty("name"));
        broker.setDataDirectory(settings.getProperty("data"));
        broker.getManagementContext().setCreateConnector(false);
        broker.addConnector(settings.getProperty("acceptor")).setName("openwire");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("EmbeddedClassic is ready");
        broker.waitUntilStopped(); // all of its threads are daemons
    }
}
