import { expect, test } from 'vitest';
import { type PolledModel, type PollSight, pollStep, UNSEEN } from './poll-step.ts';

/** Loaded from `a`, and seen so at the last look. */
const LOADED: PolledModel = { last: 'a', settled: 'a', tried: 'a', failed: false };
const OURS = { holder: 'ours', loaded: true, busy: false } as const;
const NOBODYS = { holder: 'others', loaded: false, busy: false } as const;

type Row = readonly [name: string, before: PolledModel, sight: PollSight, act: string, after: Partial<PolledModel>];

test.each<Row>([
  ['nothing new', LOADED, { ...OURS, found: 'a' }, 'nothing', LOADED],
  ['a change at its first look', LOADED, { ...OURS, found: 'b' }, 'nothing', { last: 'b', settled: 'a' }],
  ['a change at its second', { ...LOADED, last: 'b' }, { ...OURS, found: 'b' }, 'load', { settled: 'b', tried: 'b' }],
  ['one that goes on', { ...LOADED, last: 'b' }, { ...OURS, found: 'c' }, 'nothing', { last: 'c', settled: 'a' }],
  ['one that is taken back', { ...LOADED, last: 'b' }, { ...OURS, found: 'a' }, 'nothing', { last: 'a', settled: 'a' }],
  [
    'a change while a load runs',
    { ...LOADED, last: 'b' },
    { ...OURS, found: 'b', busy: true },
    'nothing',
    { settled: 'b', tried: 'a' },
  ],
  [
    'the same once it is over',
    { ...LOADED, last: 'b', settled: 'b' },
    { ...OURS, found: 'b' },
    'load',
    { settled: 'b', tried: 'b' },
  ],
  ['a reload that failed', { ...LOADED, failed: true }, { ...OURS, found: 'a' }, 'load', { tried: 'a' }],
  [
    'one that failed, while it is written again',
    { ...LOADED, failed: true },
    { ...OURS, found: 'b' },
    'nothing',
    { last: 'b', settled: 'a' },
  ],
  ['not loaded', LOADED, { ...OURS, found: 'a', loaded: false }, 'load', LOADED],
  ['gone at its first look', LOADED, { ...OURS, found: undefined }, 'nothing', { last: undefined, settled: 'a' }],
  [
    'gone at its second',
    { ...LOADED, last: undefined },
    { ...OURS, found: undefined },
    'unload',
    { settled: undefined, tried: undefined },
  ],
  ['gone and unloaded', UNSEEN, { ...OURS, found: undefined, loaded: false }, 'nothing', UNSEEN],
  ['taken over at its first look', UNSEEN, { ...OURS, found: 'a' }, 'nothing', { last: 'a', settled: undefined }],
  ['back again', { ...UNSEEN, last: 'a' }, { ...OURS, found: 'a', loaded: false }, 'load', LOADED],
  ['replaced between two looks', LOADED, { ...OURS, found: 'b' }, 'nothing', { settled: 'a' }],
  ['new at its first look', UNSEEN, { ...NOBODYS, found: 'a' }, 'nothing', { last: 'a', settled: undefined }],
  [
    'new at its second: the lease look takes it',
    { ...UNSEEN, last: 'a' },
    { ...NOBODYS, found: 'a' },
    'nothing',
    LOADED,
  ],
  [
    'new, and nobody could read it',
    { ...UNSEEN, last: 'a' },
    { ...NOBODYS, holder: 'ours', found: 'a' },
    'load',
    LOADED,
  ],
  ["another's", { ...LOADED, last: 'b' }, { ...OURS, holder: 'others', found: 'b' }, 'nothing', { tried: 'b' }],
  [
    "another's that went",
    { ...LOADED, last: undefined },
    { ...OURS, holder: 'others', found: undefined },
    'nothing',
    { settled: undefined },
  ],
])('%s', (_name, before, sight, act, after) => {
  const step = pollStep(before, sight);
  expect(step).toMatchObject({ act, after });
});
