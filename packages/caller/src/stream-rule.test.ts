import { describe, expect, test } from 'vitest';
import { type ChunkVerdict, chunkVerdict, type StreamProgress } from './stream-rule.ts';

describe('R27: what becomes of a chunk', () => {
  const begun: StreamProgress = { execution: 'wk-1/1', next: 3 };
  const fresh: StreamProgress = { execution: undefined, next: 0 };
  test.each<readonly [string, StreamProgress, string, number, ChunkVerdict]>([
    ['the first begins it', fresh, 'wk-1/1', 0, 'take'],
    ['any other first: its first is lost', fresh, 'wk-1/1', 1, 'gap'],
    ['the next', begun, 'wk-1/1', 3, 'take'],
    ['one that it has', begun, 'wk-1/1', 2, 'drop'],
    ['one after a lost one', begun, 'wk-1/1', 4, 'gap'],
    ['the next number of another execution', begun, 'wk-2/9', 3, 'drop'],
    ['the first of another execution', begun, 'wk-2/9', 0, 'drop'],
    ['a later one of another execution', begun, 'wk-2/9', 7, 'drop'],
  ])('%s', (_, progress, execution, chunk, verdict) => {
    expect(chunkVerdict(progress, { execution, chunk })).toBe(verdict);
  });
});
