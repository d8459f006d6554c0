/** How clients of a simulation read a stream, and what must hold of it (S2). */
import type { Outcome } from '@nereid/protocol';
import type { SentRequest, SimChecks } from './sim-checks.ts';
import { streamLength, valuesOf } from './sim-models.ts';

export interface Answers extends AsyncIterable<{ readonly outcome: Outcome; readonly last: boolean }> {}

/**
 * Reads all answers: they must be of one run of the model, in order, without a gap, with exactly one
 * end, and where that is no error none may be missing. Resolves with the end.
 */
export async function readStream(request: SentRequest, answers: Answers, checks: SimChecks): Promise<Outcome> {
  const what = `the stream of request ${request.token} at ${request.gateway}`;
  let run: number | undefined;
  let next = 0;
  let end: Outcome | undefined;
  for await (const { outcome, last } of answers) {
    if (end !== undefined) checks.fail('S2', `${what} goes on after its end`);
    if (last) end = outcome;
    if (!outcome.ok || (last && outcome.response.outputs.length === 0)) continue;
    const wrong = checks.wrongAnswer(request, outcome);
    if (wrong !== undefined) checks.fail('S2', `${what} ${wrong}`);
    const [ofRun, chunk] = ['RUN', 'CHUNK'].map(
      (name) => valuesOf(outcome.response.outputs.find((output) => output.name === name)?.data ?? new Uint8Array())[0],
    );
    run ??= ofRun;
    if (ofRun !== run) checks.fail('S2', `${what} has chunk ${chunk} of run ${ofRun} among those of run ${run}`);
    if (chunk !== next) checks.fail('S2', `${what} has chunk ${chunk} in place of ${next}`);
    next++;
  }
  if (end === undefined) {
    checks.fail('S2', `${what} has no end`);
    return { ok: false, error: { code: 'INTERNAL', message: 'a stream without an end' } };
  }
  if (end.ok && next !== streamLength(request.token)) checks.fail('S2', `${what} ends after ${next} chunks`);
  return end;
}
