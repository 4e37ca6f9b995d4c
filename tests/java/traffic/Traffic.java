import jakarta.annotation.Resource;
import jakarta.inject.Inject;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSDestinationDefinition;
import jakarta.jms.Queue;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** GET /traffic?to=orders|healthy&count=N&body=TEXT sends; answers what was sent and what the beans have done so far. */
@JMSDestinationDefinition(name = "java:app/jms/orders", interfaceName = "jakarta.jms.Queue", destinationName = "orders")
@JMSDestinationDefinition(name = "java:app/jms/healthy", interfaceName = "jakarta.jms.Queue", destinationName = "healthy")
@WebServlet("/traffic")
public class Traffic extends HttpServlet {
    @Inject
    private JMSContext context;

    @Resource(lookup = "java:app/jms/orders")
    private Queue orders;

    @Resource(lookup = "java:app/jms/healthy")
    private Queue healthy;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int count = Integer.parseInt(request.getParameter("count"));
        Queue to = "orders".equals(request.getParameter("to")) ? orders : healthy;
        for (int i = 0; i < count; i++) {
            context.createProducer().send(to, request.getParameter("body"));
        }
        response.getWriter().println(count + " " + OrdersBean.DONE + " " + HealthyBean.DONE);
    }
}
