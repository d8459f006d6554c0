import type { CarriedOutcome, ResponseMessage } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { createJobStream } from './job-stream.ts';

const ERROR = { code: 'INTERNAL', message: 'x' } as const;
const FAILED: CarriedOutcome = { ok: false, error: ERROR };
const EMPTY: CarriedOutcome = {
  ok: true,
  response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] },
};

function answer(value: number): CarriedOutcome & { readonly ok: true } {
  const outputs = [{ name: 'B', datatype: 'INT8', shape: [1], data: Uint8Array.of(value) }] as const;
  return { ok: true, response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs } };
}

const lost: CarriedOutcome = {
  ok: true,
  response: {
    ...answer(1).response,
    outputs: [{ name: 'B', datatype: 'INT8', shape: [1], blob: { place: 'redis', key: 'k', bytes: 1 } } as never],
  },
};

type Chunk = readonly [execution: string, chunk: number, outcome: CarriedOutcome, last?: boolean];

/** What each chunk brings: `n`, `n end`, `end`, `broken`, an error's text, or nothing. */
function told(chunks: readonly Chunk[]): readonly string[] {
  const stream = createJobStream('m');
  return chunks.map(([execution, chunk, outcome, last = false]) => {
    const message: ResponseMessage = { kind: 'response', model: 'm', id: 'r', outcome, execution, chunk, last };
    const step = stream.take(message);
    const parts = [
      step.answer === undefined ? '' : String(step.answer.n),
      step.end === undefined ? '' : step.end.ok ? `end of ${step.end.response.outputs.length}` : step.end.error.message,
      step.isBroken === true ? 'broken' : '',
    ];
    return parts.filter((part) => part !== '').join(' ');
  });
}

test.each<[string, readonly Chunk[], readonly string[]]>([
  [
    'answers are counted, and the last one before the end alone is the result',
    [
      ['a', 0, answer(1)],
      ['a', 1, answer(2)],
      ['a', 2, EMPTY, true],
    ],
    ['1', '2', 'end of 1'],
  ],
  ['an answer that is the last is both', [['a', 0, answer(1), true]], ['1 end of 1']],
  ['without an answer the result has no outputs', [['a', 0, EMPTY, true]], ['end of 0']],
  [
    'an error among the answers is one of them',
    [
      ['a', 0, FAILED],
      ['a', 1, answer(1)],
      ['a', 2, EMPTY, true],
    ],
    ['1', '2', 'end of 1'],
  ],
  [
    'an error that is the last answer is the end',
    [
      ['a', 0, answer(1)],
      ['a', 1, FAILED],
      ['a', 2, EMPTY, true],
    ],
    ['1', '2', 'x'],
  ],
  [
    'what the stream itself ends with is no answer',
    [
      ['a', 0, answer(1)],
      ['a', 1, FAILED, true],
    ],
    ['1', 'x'],
  ],
  [
    'a second run begins anew, and the first one is heard no more',
    [
      ['a', 0, answer(1)],
      ['a', 1, answer(2)],
      ['b', 0, answer(1)],
      ['a', 2, answer(3)],
      ['b', 1, EMPTY, true],
    ],
    ['1', '2', '1', '', 'end of 1'],
  ],
  [
    'one that comes twice counts once',
    [
      ['a', 0, answer(1)],
      ['a', 0, answer(1)],
      ['a', 1, EMPTY, true],
    ],
    ['1', '', 'end of 1'],
  ],
  [
    'a gap breaks it',
    [
      ['a', 0, answer(1)],
      ['a', 2, answer(3)],
    ],
    ['1', "the stream of model 'm' broke off: a part of it was lost broken"],
  ],
  [
    'so does a missing beginning',
    [['a', 1, answer(3)]],
    ["the stream of model 'm' broke off: a part of it was lost broken"],
  ],
  [
    'and lost tensors',
    [['a', 0, lost]],
    ["the stream of model 'm' broke off: the tensors of a part of it were lost broken"],
  ],
])('%s', (_what, chunks, expected) => {
  expect(told(chunks)).toEqual(expected);
});
