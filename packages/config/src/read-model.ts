import { NereidError } from '@nereid/protocol';
import { type ConfigFinding, configFinding, locatedError } from './config-finding.ts';
import type { ConfigText } from './config-positions.ts';
import { configWarnings } from './config-warnings.ts';
import { examineModel } from './examine-model.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { misnamedVersions } from './model-folder.ts';
import { unsupportedField } from './unsupported-reason.ts';

export interface ReadModelOptions {
  /** False for `--disable-auto-complete-config`. */
  readonly autoComplete: boolean;
  /** `default-max-batch-size` of the backend's settings. */
  readonly defaultMaxBatchSize?: number;
  /** GPUs that can be used, numbered from 0; undefined where each worker goes by its own. */
  readonly gpus: number | undefined;
  /** `--model-config-name`: `configs/<name>.pbtxt` goes before config.pbtxt where it is there. */
  readonly modelConfigName?: string;
  /** Whether models may run code of theirs to complete their config; else what it may complete is not checked. */
  readonly runCode?: boolean;
}

/** Where a model is. */
export interface ModelPlace {
  readonly name: string;
  readonly directory: string;
  /** In place of the config in the folder: that of a load over the API. */
  readonly config?: ConfigText;
}

/** A model as its files describe it: everything that a ModelRecord needs but the versions' states. */
export interface ModelSource {
  readonly name: string;
  readonly directory: string;
  /** Completed, normalised and checked, also against the model's files. */
  readonly config: ModelConfig;
  /** Class labels by output name. */
  readonly labels: Readonly<Record<string, readonly string[]>>;
  /** Those that the version policy picks, ascending by number; at least one. */
  readonly versions: readonly string[];
  /** SHA-256 over the selected versions and the files beside them: config, labels, initial states, warm-up data, strategies. */
  readonly contentHash: string;
  /** As `contentHash`, without the config file. */
  readonly filesHash?: string;
  /** Module of the batching strategy by version, relative to `directory`; absent where no version has one. */
  readonly strategies?: Readonly<Record<string, string>>;
  /** What it is read from in place of the repository's files, as override-ref has it. */
  readonly override?: string;
  /** What is without effect; for who loads it to log. */
  readonly warning?: string;
}

/** `reason` of the NereidErrors of `readModel` that arise once versions are known. */
export const LOAD_FAILED = 'load_failed';

/**
 * Reads, completes and checks one model. Whether this version of Nereid can serve it is for `unsupportedReason` to say.
 * Throws a NereidError in Triton's words for the first fault, with the place in the config where there is one. Triton
 * finds a wrong config or an unreadable folder when it polls, and lists such a model without version or state; what it
 * finds when it loads (no version under the policy, a missing model or label file, a file that contradicts the config)
 * has the reason LOAD_FAILED here.
 */
export async function readModel(place: ModelPlace, options: ReadModelOptions): Promise<ModelSource> {
  const source = await examineModel(place, options, {
    fault({ error, text, loading }) {
      throw locatedError(error, text, loading ? LOAD_FAILED : undefined);
    },
    unchecked: () => {},
    given: () => {},
  });
  if (source === undefined) throw new Error('a step of the examination failed without a fault');
  return source;
}

/** More than any line has columns, so that places can be ordered by one number. */
const LINE = LIMITS.config_bytes_max + 1;

/** All that is wrong with a model, and what it is as far as it could be read; findings in the order of their places. For who looks without loading it. */
export async function inspectModel(
  place: ModelPlace,
  options: ReadModelOptions,
): Promise<{ readonly source: ModelSource | undefined; readonly findings: readonly ConfigFinding[] }> {
  const findings: ConfigFinding[] = [];
  const add = (finding: ConfigFinding) => {
    // A rule may be asked twice, of the config as it is written and as it is completed.
    if (!findings.some(({ message, field }) => message === finding.message && field === finding.field)) {
      findings.push(finding);
    }
  };
  let given: ConfigText | undefined;
  const warn = (message: string, field?: string) => {
    const detail = field === undefined ? {} : { field };
    add({ ...configFinding(new NereidError('INVALID_ARG', message, detail), given), level: 'warning' });
  };
  const source = await examineModel(place, options, {
    fault: ({ error, text }) => add(configFinding(error, text)),
    unchecked: (what) => add({ level: 'warning', code: 'UNSUPPORTED', message: `not checked: ${what}` }),
    given(config, text) {
      given = text;
      for (const { field, text: message } of configWarnings(config)) warn(message, field);
    },
  });
  for (const folder of await misnamedVersions(place.directory)) {
    warn(`the folder '${folder}' is no version, since it begins with 0`);
  }
  if (source?.warning !== undefined) warn(source.warning);
  const unsupported = source && unsupportedField(source.config);
  if (unsupported !== undefined) {
    const { field, text } = unsupported;
    add(configFinding(new NereidError('UNSUPPORTED', text, { field }), given));
  }
  const placeOf = ({ at }: ConfigFinding) => (at === undefined ? Number.MAX_VALUE : at.line * LINE + at.column);
  return { source, findings: findings.sort((a, b) => placeOf(a) - placeOf(b)) };
}
