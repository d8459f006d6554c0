/** What of a model's requests the journal records (docs/replay.md). */
import { isEnsemble } from './complete-model-config.ts';
import { mapEntry, refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

const JOURNAL = 'nereid.journal';
const JOURNAL_REDACT = 'nereid.journal_redact';

export const JOURNAL_FORMS = "'off', 'on' or 'sample:p' with p from 0 to 1, e.g. 'sample:0.01'";

/** The share of sequences and of single requests that is recorded: 0 for none, 1 for all; undefined where the text says none. */
export function journalShare(text: string): number | undefined {
  if (text === 'off') return 0;
  if (text === 'on') return 1;
  const [, share] = /^sample:([0-9]+(?:\.[0-9]+)?|\.[0-9]+)$/.exec(text) ?? [];
  return share !== undefined && Number(share) <= 1 ? Number(share) : undefined;
}

/** What a model's config says of its recordings. */
export interface JournalRule {
  /** As `journalShare` tells it; undefined where the config does not say, and `--journal` does. */
  readonly share: number | undefined;
  /** Names of tensors that are not recorded. */
  readonly redact: ReadonlySet<string>;
}

export function journalRule({ parameters }: Pick<ModelConfig, 'parameters'>): JournalRule {
  const said = parameters[JOURNAL]?.stringValue;
  return { share: said === undefined ? undefined : journalShare(said), redact: new Set(redacted(parameters)) };
}

/**
 * Refuses a value that is none, and a name that no tensor of the model has: what was meant would be recorded.
 * `withoutTensors`: the config's tensors are not known yet.
 */
export function checkJournal(config: ModelConfig, withoutTensors: boolean): void {
  const { name, parameters } = config;
  const said = parameters[JOURNAL]?.stringValue;
  if (said !== undefined && journalShare(said) === undefined) {
    refuse(JOURNAL, `parameter '${JOURNAL}' for ${name} must be ${JOURNAL_FORMS}, not '${said}'`);
  }
  if (said !== undefined && said !== 'off' && isEnsemble(config)) {
    refuse(
      JOURNAL,
      `parameter '${JOURNAL}' for ${name}: an ensemble runs nothing by itself; set it in the configs of its models`,
    );
  }
  if (withoutTensors) return;
  const known = [...config.input, ...config.output].map((tensor) => tensor.name);
  const unknown = redacted(parameters).find((tensor) => !known.includes(tensor));
  if (unknown === undefined) return;
  refuse(
    JOURNAL_REDACT,
    `parameter '${JOURNAL_REDACT}' for ${name}: it has no tensor '${unknown}'; its tensors are ${known.join(', ')}`,
  );
}

function redacted(parameters: ModelConfig['parameters']): readonly string[] {
  const said = parameters[JOURNAL_REDACT]?.stringValue ?? '';
  return said
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
}

function refuse(key: string, text: string): never {
  refuseField(mapEntry('parameters', key), text);
}
