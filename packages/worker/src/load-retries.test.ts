import { describe, expect, it } from 'vitest';
import { eachWithHarness, type Harness } from './worker-harness.ts';

/** Each thread that initializes it counts itself in a file beside it; the first one fails. */
const FLAKY = `
  import { appendFileSync, readFileSync } from 'node:fs';
  const tries = new URL('./tries', import.meta.url);
  export const initialize = () => {
    appendFileSync(tries, 'x');
    if (readFileSync(tries, 'utf8').length < 2) throw Error('not yet');
  };
  export const execute = () => [];`;

let harness: Harness;

describe('--model-load-retry-count', () => {
  describe('1', () => {
    eachWithHarness(
      (made) => {
        harness = made;
      },
      { loadRetries: 1 },
    );
    it('loads a model whose first try fails', async () => {
      await harness.javascript('m', FLAKY);
      expect((await harness.load('m')).versions).toMatchObject([{ state: 'READY', reason: '' }]);
    });
    it('gives one up that fails each time, with the last reason', async () => {
      await harness.javascript('m', FLAKY.replace('< 2', '< 9'));
      expect((await harness.load('m')).versions).toMatchObject([
        { state: 'UNAVAILABLE', reason: expect.stringContaining('not yet') },
      ]);
    });
  });

  describe('0, the default', () => {
    eachWithHarness((made) => {
      harness = made;
    });
    it('tries once', async () => {
      await harness.javascript('m', FLAKY);
      expect((await harness.load('m')).versions).toMatchObject([{ state: 'UNAVAILABLE' }]);
    });
  });
});
