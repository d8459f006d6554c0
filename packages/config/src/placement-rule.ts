/** Where a model may run, and when it is held (docs/placement.md). */
import { isEnsemble } from './complete-model-config.ts';
import { mapEntry, refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LABELS_FORM, type Labels, readLabelPairs } from './labels.ts';

const LABELS = 'nereid.labels';
const PIN = 'nereid.pin';
const KEEP_WARM_MS = 'nereid.keep_warm_ms';
const SCALE_TO_ZERO = 'nereid.scale_to_zero';
const MAX_WAIT_MS = 'nereid.max_wait_ms';
/** What a timer can count. */
const MS_MAX = 2_147_483_647;

/** What a model's parameters say of its placement. */
export interface PlacementRule {
  /** All of them a worker must carry. */
  readonly labels: Labels;
  /** It is loaded without being asked for, and never makes room for another. */
  readonly pin: boolean;
  /** So long after its last request it does not make room for another. */
  readonly keepWarmMs: number;
  /** It can be asked for though no worker lives that takes it. */
  readonly scaleToZero: boolean;
  /** How long a request may wait for a worker to hold the model; undefined for the server's limit. */
  readonly maxWaitMs: number | undefined;
}

export function placementRule({ parameters }: Pick<ModelConfig, 'parameters'>): PlacementRule {
  const said = (key: string) => parameters[key]?.stringValue;
  const labels = said(LABELS);
  return {
    labels: (labels === undefined ? undefined : readLabelPairs(labels)) ?? {},
    pin: said(PIN) === 'true',
    keepWarmMs: milliseconds(said(KEEP_WARM_MS), 0) ?? 0,
    scaleToZero: said(SCALE_TO_ZERO) === 'true',
    maxWaitMs: milliseconds(said(MAX_WAIT_MS), 1),
  };
}

/** Refuses a value that is none, and any for an ensemble, of which no worker holds anything. */
export function checkPlacement(config: ModelConfig): void {
  const { name, parameters } = config;
  const check = (key: string, isRight: (text: string) => boolean, wanted: string) => {
    const given = parameters[key]?.stringValue;
    if (given === undefined) return;
    if (isEnsemble(config)) {
      refuse(key, `parameter '${key}' for ${name}: no worker holds an ensemble; set it in the configs of its models`);
    }
    if (!isRight(given)) refuse(key, `parameter '${key}' for ${name} must be ${wanted}, not '${given}'`);
  };
  const isBoolean = (text: string) => text === 'true' || text === 'false';
  check(LABELS, (text) => readLabelPairs(text) !== undefined, LABELS_FORM);
  check(PIN, isBoolean, "'true' or 'false'");
  check(SCALE_TO_ZERO, isBoolean, "'true' or 'false'");
  for (const [key, least] of [
    [KEEP_WARM_MS, 0],
    [MAX_WAIT_MS, 1],
  ] as const) {
    check(key, (text) => milliseconds(text, least) !== undefined, `a whole number of milliseconds from ${least}`);
  }
}

function milliseconds(text: string | undefined, least: number): number | undefined {
  if (text === undefined || !/^\d{1,10}$/.test(text)) return undefined;
  const ms = Number(text);
  return ms >= least && ms <= MS_MAX ? ms : undefined;
}

function refuse(key: string, text: string): never {
  refuseField(mapEntry('parameters', key), text);
}
