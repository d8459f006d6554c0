// What the journal has of the recorded cases, run again.

const PAGE = 100;

/** Recordings that do not come out equal, and why. */
const EXPECTED = [
  {
    why: 'the model tells how many rows ran with a request, which by itself are fewer',
    applies: ({ recording, result, output }) =>
      recording.model_name.startsWith('batch_') && result === 'differs' && ['ROWS', 'SUM'].includes(output),
  },
  {
    why: 'its time is over before as many rows as ran with it have come',
    applies: ({ recording, text }) => recording.model_name === 'batch_timeout' && text.includes('timeout expired'),
  },
  {
    why: 'it was cancelled, so nothing is known of what it answers',
    applies: ({ recording, result }) => recording.state === 'cancelled' && recording.steps === 1 && result === 'failed',
  },
];

/**
 * Replays each recording of a server; prints what comes out otherwise than it should.
 *
 * @returns {Promise<{ passed: number, failed: number }>}
 */
export async function replayRecordings(http, setUp) {
  const counts = { equal: 0, expected: 0, failed: 0 };
  for await (const recording of recordings(http)) {
    const { result, output, text } = await replayed(http, recording);
    if (result === 'equal') {
      counts.equal++;
      continue;
    }
    const isExpected = EXPECTED.some(({ applies }) => applies({ recording, result, output, text }));
    counts[isExpected ? 'expected' : 'failed']++;
    if (isExpected) continue;
    console.log(
      `${setUp}: recording ${recording.id} (${recording.state}, ${recording.steps} steps): ${result}: ${text}`,
    );
  }
  console.log(`${setUp}: ${counts.equal} recordings are equal, ${counts.expected} differ as they should`);
  return { passed: 0, failed: counts.failed };
}

async function* recordings(http) {
  let after;
  do {
    const query = new URLSearchParams({ limit: String(PAGE), ...(after === undefined ? {} : { after }) });
    const page = await (await fetch(`${http}/nereid/v1/journal?${query}`)).json();
    yield* page.recordings;
    after = page.next;
  } while (after !== undefined && after !== '');
}

async function replayed(http, { id }) {
  const answer = await fetch(`${http}/nereid/v1/journal/${id}/replay`, { method: 'POST', body: '{}' });
  const text = await answer.text();
  if (!answer.ok) return { result: 'failed', text };
  const { result, first_difference: first, error } = JSON.parse(text.trimEnd().split('\n').at(-1));
  return { result, output: first?.output, text: JSON.stringify(first ?? error) };
}
