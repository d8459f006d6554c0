export { type AtMost, createAtMost } from './at-most.ts';
export { type Clock, systemClock, type Timer } from './clock.ts';
export { answeredWithin, pause, settledWithin } from './clock-wait.ts';
export { createLifecycle, type Lifecycle } from './lifecycle.ts';
export { createLog, type Log, type LogControl, type LogOptions, type LogSettings } from './log.ts';
export {
  addSampledHistogram,
  addSampledMetric,
  createRegistry,
  type HistogramSample,
  type Labels,
  type Registry,
  type Sample,
  type SampledMetric,
} from './metrics.ts';
export { packageVersion } from './package-version.ts';
export { newProcessId, type Random, seededRandom } from './random.ts';
export { createRecordRing, type RecordRing } from './record-ring.ts';
export { type VirtualClock, virtualClock } from './virtual-clock.ts';
