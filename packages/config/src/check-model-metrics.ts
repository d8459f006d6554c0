import { type ConfigCheck, refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

/**
 * The rules of model_metrics (core/src/model_config_utils.cc, ValidateModelMetrics), and that buckets rise, without
 * which they mean nothing.
 */
export function modelMetricsChecks(config: ModelConfig): ConfigCheck[] {
  const controls = config.modelMetrics?.metricControl ?? [];
  return controls.map((control, index) => () => {
    const path = `model_metrics.metric_control[${index}]`;
    if ((control.metricIdentifier?.family ?? '') === '') {
      refuseField(`${path}.metric_identifier`, `model metrics must specify 'family' for ${config.name}`);
    }
    const { metricOptions: options } = control;
    if (options.case !== 'histogramOptions') {
      refuseField(path, `model metrics must specify 'histogram_options' for ${config.name}`);
    }
    const { buckets } = options.value;
    if (buckets.length === 0) {
      refuseField(`${path}.histogram_options`, `model metrics must specify 'buckets' for ${config.name}`);
    }
    // Not written as "falls", so that NaN is refused too.
    if (buckets.every((bucket, at) => at === 0 || bucket > (buckets[at - 1] ?? bucket))) return;
    refuseField(
      `${path}.histogram_options.buckets`,
      `the buckets of model metrics for ${config.name} must rise, got [${buckets.join(', ')}]`,
    );
  });
}
