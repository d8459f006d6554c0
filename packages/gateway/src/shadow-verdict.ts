import type { AliasShadow } from '@nereid/config';
import { compareStep, type ErrorInfo, type Outcome, type StepDifference, type Tolerance } from '@nereid/protocol';

/**
 * What became of a copy. `equal`, `different`: its answer, beside the client's. `failed`: it has none, whatever the client
 * got. `dropped`: it was not sent, or its sequence broken off, since there were too many. `skipped`: the client got no
 * answer to compare it with.
 */
export const SHADOW_RESULTS = ['equal', 'different', 'failed', 'dropped', 'skipped'] as const;
export type ShadowResult = (typeof SHADOW_RESULTS)[number];

export interface ShadowVerdict {
  readonly result: ShadowResult;
  /** `recorded` is what the client got, `replayed` the copy's. */
  readonly difference?: Omit<StepDifference, 'step'>;
}

/** Of errors that say nothing about the model's answer. */
const WITHOUT_ANSWER: readonly ErrorInfo['code'][] = ['CANCELLED', 'UNAVAILABLE'];

export function shadowVerdict(answered: Outcome, copied: Outcome, shadow: AliasShadow): ShadowVerdict {
  if (isWithoutAnswer(answered)) return { result: 'skipped' };
  const found = compareStep({ step: 0, answers: [plain(answered)] }, [copied], toleranceOf(shadow));
  if (found === undefined) return { result: 'equal' };
  const { step: _, ...difference } = found;
  return { result: isWithoutAnswer(copied) ? 'failed' : 'different', difference };
}

function toleranceOf({ atol, rtol }: AliasShadow): Tolerance {
  return atol === undefined && rtol === undefined ? 'exact' : { atol: atol ?? 0, rtol: rtol ?? 0 };
}

function isWithoutAnswer(outcome: Outcome): boolean {
  return !outcome.ok && (WITHOUT_ANSWER.includes(outcome.error.code) || outcome.error.reason !== undefined);
}

function plain(outcome: Outcome) {
  return outcome.ok ? { ok: true as const, parameters: {}, outputs: outcome.response.outputs } : outcome;
}
