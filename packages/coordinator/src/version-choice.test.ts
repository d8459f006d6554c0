import { type InferMessage, REQUEST_DEFAULTS } from '@nereid/protocol';
import { expect, it } from 'vitest';
import type { OwnedModel } from './owned-model.ts';
import type { KnownSequence } from './session-book.ts';
import { endReplaced, versionOfSequence } from './version-choice.ts';

const live = (sinceUs: number): KnownSequence => ({ live: true, sinceUs });
const ended = (sinceUs: number): KnownSequence => ({ live: false, sinceUs });

/** A model with versions 1, 2 … and what each knows of the step's sequence. */
function model(known: readonly (KnownSequence | undefined)[], evicted: string[] = []): OwnedModel {
  const versions = known.map((found, index) => ({
    version: String(index + 1),
    signature: { sequence: { iterative: false } },
    queue: {
      finds: () => found,
      sequenceOf: () => (found?.live === true ? `session-${index + 1}` : undefined),
      evict: (session: string) => void evicted.push(session),
    },
  }));
  return { name: 'm', phase: 'serving', versions, retiring: [], older: [] } as unknown as OwnedModel;
}

function step(modelVersion: string, more: Partial<InferMessage['request']> = {}): InferMessage {
  const request = { ...REQUEST_DEFAULTS, modelName: 'm', modelVersion, correlationId: 5n, inputs: [], ...more };
  return { step: -1, request } as unknown as InferMessage;
}

it.each<[string, string, readonly (KnownSequence | undefined)[], string | undefined]>([
  ['the one that it names', '1', [live(1), live(2)], '1'],
  ['not another than it names', '1', [undefined, live(2)], undefined],
  ['where it lives', '~1', [undefined, live(2)], '2'],
  ['where it lives, without a version', '', [live(1), undefined], '1'],
  ['where it goes on, before one where it has ended', '~2', [live(1), ended(9)], '1'],
  ['where it began last', '~2', [live(9), live(1)], '1'],
  ['the newest version of two of one moment', '~1', [live(1), live(1)], '2'],
  ['where it ended last', '', [ended(3), ended(2)], '1'],
])('a step goes to %s', (_rule, asked, known, version) => {
  expect(versionOfSequence(model(known), step(asked))?.version.version).toBe(version);
});

it.each<[string, string, Partial<InferMessage['request']>, readonly string[]]>([
  ['by an alias, ends that of its id with other versions', '~2', { sequenceStart: true }, ['session-1', 'session-3']],
  ['by its version, leaves those of others', '2', { sequenceStart: true }, []],
  ['which is none, ends nothing', '~2', {}, []],
])('a START %s', (_rule, asked, more, sessions) => {
  const evicted: string[] = [];
  const of = model([live(1), live(2), live(3)], evicted);
  const version = of.versions[1];
  if (version?.queue === undefined) throw new Error('no queue');
  endReplaced(of, step(asked, more), { version, queue: version.queue });
  expect(evicted).toEqual(sessions);
});
