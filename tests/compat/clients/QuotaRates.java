// Kafka's own arithmetic of client quotas, for comparison.
//
// In: lines of "rate|bucket SAMPLES SAMPLE_MS LIMIT", each followed by lines of "TIME_MS AMOUNT". Out: for each
// amount the throttle time. A bucket that is negative before the amount refuses it (Kafka's strict mode).

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.server.quota.QuotaUtils;

public class QuotaRates {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        Metrics metrics = new Metrics();
        Sensor sensor = null;
        boolean isRate = true;
        int count = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words.length == 4) {
                isRate = words[0].equals("rate");
                MetricConfig config = new MetricConfig()
                    .samples(Integer.parseInt(words[1]))
                    .timeWindow(Long.parseLong(words[2]), TimeUnit.MILLISECONDS)
                    .quota(Quota.upperBound(Double.parseDouble(words[3])));
                sensor = metrics.sensor("sensor-" + count++);
                sensor.add(metrics.metricName("use-" + count, "quotas"),
                    isRate ? new Rate() : new TokenBucket(), config);
                continue;
            }
            long now = Long.parseLong(words[0]);
            double amount = Double.parseDouble(words[1]);
            long throttle = 0;
            try {
                if (isRate) {
                    sensor.record(amount, now, true);
                } else {
                    sensor.checkQuotas(now);
                    sensor.record(amount, now, false);
                }
            } catch (QuotaViolationException violation) {
                throttle = isRate
                    ? QuotaUtils.throttleTime(violation, now)
                    : Math.round(-violation.value() / violation.bound() * 1000);
            }
            out.append(throttle).append('\n');
        }
        System.out.print(out);
    }
}
