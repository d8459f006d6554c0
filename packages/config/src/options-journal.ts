/** Options of the journal, which records requests for replay (docs/replay.md). */
import { z } from 'zod';
import { type FlagMeta, flagMetas, RECORDER_ROLES, WORKER } from './flag-meta.ts';
import { nearestName } from './flag-nearest.ts';
import { JOURNAL_FORMS, journalShare } from './journal-rule.ts';

const journal: Pick<FlagMeta, 'topic' | 'roles' | 'ours'> = { topic: 'Models', roles: WORKER, ours: true };

export const journalOptions = {
  journal: z
    .string()
    .refine((text) => journalShare(text) !== undefined)
    .default('off')
    .register(flagMetas, {
      ...journal,
      form: 'off|sample:<p>|on',
      allowed: JOURNAL_FORMS,
      description:
        'Record the requests of models whose config has no `nereid.journal`, to be replayed by `nereid replay`: all (`on`), or a share of the sequences and of the single requests. What was recorded is in Redis, with the inputs of clients.',
    }),
  journalConfig: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...journal,
      roles: RECORDER_ROLES,
      form: '<key>=<value>',
      description:
        'A bound of the journal: `steps` and `recording_bytes` of one recording, `recordings` and `bytes` of one model (beyond them the oldest go), `age_s` seconds since the last step, `output_bytes` of one answer (of a larger one digests are kept). Repeat it for several.',
    }),
};

/** Bounds of the journal; names as in `--journal-config`. */
export interface JournalLimits {
  /** Of one recording: what comes beyond is not recorded, since it could not be replayed without what came before. */
  readonly steps: number;
  readonly recording_bytes: number;
  /** Of one model: beyond them the oldest recordings go. */
  readonly recordings: number;
  readonly bytes: number;
  /** Seconds since its last step after which a recording goes. */
  readonly age_s: number;
  /** Of one answer: of outputs that have more in all, digests are kept in place of data. 0: digests alone. */
  readonly output_bytes: number;
}

export const JOURNAL_DEFAULTS: JournalLimits = {
  steps: 10_000,
  recording_bytes: 67_108_864,
  recordings: 1_000,
  bytes: 268_435_456,
  age_s: 86_400,
  output_bytes: 1_048_576,
};

/** How a worker records. */
export interface JournalConfig extends JournalLimits {
  /** `--journal`, as `journalShare` tells it. */
  readonly share: number;
}

/** The least of each. */
export const JOURNAL_LEAST: Readonly<Record<keyof JournalLimits, number>> = {
  steps: 1,
  recording_bytes: 1,
  recordings: 1,
  bytes: 1,
  age_s: 1,
  output_bytes: 0,
};
export const JOURNAL_KEYS = Object.keys(JOURNAL_DEFAULTS) as (keyof JournalLimits)[];

/** With the defaults of what is not given: nothing is recorded but what models' configs and requests ask for. */
export function journalConfig(given: Partial<JournalConfig> = {}): JournalConfig {
  return { ...JOURNAL_DEFAULTS, share: 0, ...given };
}

/** What the flags ask for, the last of each key; the error is one line. */
export function readJournalConfig(flags: {
  readonly journal: string;
  readonly journalConfig: readonly string[];
}): { readonly ok: true; readonly value: JournalConfig } | { readonly ok: false; readonly error: string } {
  const value: { -readonly [key in keyof JournalConfig]: number } = journalConfig({
    share: journalShare(flags.journal) ?? 0,
  });
  for (const text of flags.journalConfig) {
    const equals = text.indexOf('=');
    const name = equals < 0 ? text : text.slice(0, equals);
    const key = JOURNAL_KEYS.find((known) => known === name);
    if (key === undefined) {
      const nearest = nearestName(name, JOURNAL_KEYS);
      return failed(
        `there is no key '${name}': ${nearest === undefined ? `give ${JOURNAL_KEYS.join(', ')}` : `did you mean ${nearest}?`}`,
      );
    }
    const given = equals < 0 ? '' : text.slice(equals + 1);
    const number = /^[0-9]{1,15}$/.test(given) ? Number(given) : -1;
    if (number < JOURNAL_LEAST[key])
      return failed(`${key}: '${given}' is not allowed: give a whole number from ${JOURNAL_LEAST[key]}`);
    value[key] = number;
  }
  return { ok: true, value };
}

function failed(why: string): { readonly ok: false; readonly error: string } {
  return { ok: false, error: `--journal-config: ${why}` };
}
