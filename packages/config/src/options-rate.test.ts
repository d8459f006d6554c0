import { describe, expect, test } from 'vitest';
import { parseOptions } from './options-parse.ts';
import { resourceLimits } from './options-rate.ts';

const parse = (...argv: string[]) =>
  parseOptions({ argv: ['--model-repository=m', ...argv], env: {}, readFile: () => '' });

test('resources by name, count and perhaps device', () => {
  expect(resourceLimits(['R1:10', 'R2:5:0', 'a b:0:3'])).toEqual([
    { name: 'R1', count: 10, device: undefined },
    { name: 'R2', count: 5, device: 0 },
    { name: 'a b', count: 0, device: 3 },
  ]);
});

describe('--rate-limit', () => {
  test('is off unless it is asked for', () => {
    expect(parse()).toMatchObject({ ok: true, options: { rateLimit: 'off', rateLimitResource: [] } });
    expect(
      parse('--rate-limit=execution_count', '--rate-limit-resource=R:1', '--rate-limit-resource=S:2:1'),
    ).toMatchObject({ ok: true, options: { rateLimit: 'execution_count', rateLimitResource: ['R:1', 'S:2:1'] } });
  });

  test.each(['R', 'R:', ':1', 'R:x', 'R:-1', 'R:1:', 'R:1:x', 'R:1:2:3', 'R:1.5'])(
    'the resource %s is refused',
    (value) => {
      const parsed = parse('--rate-limit=execution_count', `--rate-limit-resource=${value}`);
      expect(parsed).toMatchObject({ ok: false, error: expect.stringContaining('--rate-limit-resource') });
    },
  );
});
