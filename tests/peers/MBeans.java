import com.sun.tools.attach.VirtualMachine;
import java.util.Set;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints "domain:type=…,name=… TAB attribute TAB value" for the MBeans of the JVM with that process id. */
public class MBeans {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(arguments[0]);
        String address = machine.startLocalManagementAgent();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (int i = 1; i < arguments.length; i++) {
                Set<ObjectName> names = server.queryNames(new ObjectName(arguments[i]), null);
                for (ObjectName name : names) {
                    for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes()) {
                        Object value = server.getAttribute(name, attribute.getName());
                        System.out.println(name + "\t" + attribute.getName() + "\t" + value);
                    }
                }
            }
        }
        machine.detach();
    }
}
