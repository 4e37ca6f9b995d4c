import jakarta.ejb.ActivationConfigProperty;
import jakarta.ejb.MessageDriven;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageListener;
import java.util.concurrent.atomic.AtomicInteger;

/** Takes messages of "orders", four at a time; one whose body says so it never finishes. */
@MessageDriven(activationConfig = {
    @ActivationConfigProperty(propertyName = "destinationLookup", propertyValue = "java:app/jms/orders"),
    @ActivationConfigProperty(propertyName = "destinationType", propertyValue = "jakarta.jms.Queue"),
    @ActivationConfigProperty(propertyName = "endpointPoolMaxSize", propertyValue = "4")
})
public class OrdersBean implements MessageListener {
    static final AtomicInteger DONE = new AtomicInteger();

    @Override
    public void onMessage(Message message) {
        try {
            if ("hang".equals(message.getBody(String.class))) {
                Thread.sleep(600_000);
            }
            DONE.incrementAndGet();
        } catch (JMSException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
