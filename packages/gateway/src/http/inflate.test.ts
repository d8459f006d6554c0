import { randomBytes } from 'node:crypto';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { createInflate, type Inflated } from './inflate.ts';

const LIMIT = 4_000_000;

function inflate(body: Uint8Array, bytesMax = LIMIT): Promise<Inflated> {
  return new Promise((resolve) => createInflate(bytesMax)(body, resolve));
}

const small = Buffer.from('{"inputs":[]}');
/** Its compressed form is larger than what is inflated at once. */
const large = randomBytes(200_000);

describe('what is compressed comes back', () => {
  it.each([
    ['gzip, small', gzipSync(small), small],
    ['zlib, small', deflateSync(small), small],
    ['gzip, large', gzipSync(large), large],
    ['zlib, large', deflateSync(large), large],
    ['nothing', gzipSync(Buffer.alloc(0)), Buffer.alloc(0)],
    ['much in little', gzipSync(Buffer.alloc(3_000_000, 7)), Buffer.alloc(3_000_000, 7)],
    ['as much as the limit', gzipSync(Buffer.alloc(LIMIT, 7)), Buffer.alloc(LIMIT, 7)],
    ['in two members', Buffer.concat([gzipSync(small), gzipSync(small)]), Buffer.concat([small, small])],
  ])('%s', async (_, body, expected) => {
    const inflated = await inflate(body);
    expect(inflated.ok && Buffer.from(inflated.bytes).equals(expected)).toBe(true);
  });

  it('at once where it is small, so that no turn is lost', () => {
    let called = false;
    createInflate(LIMIT)(gzipSync(small), () => {
      called = true;
    });
    expect(called).toBe(true);
  });
});

describe('what is not is refused', () => {
  const corrupt = (body: Buffer) => {
    const copy = Buffer.from(body);
    copy[copy.length - 6] = (copy[copy.length - 6] ?? 0) ^ 0xff;
    return copy;
  };
  it.each([
    ['text', Buffer.from('notgzip')],
    ['JSON', small],
    ['a gzip header alone', gzipSync(small).subarray(0, 10)],
    ['cut short', gzipSync(small).subarray(0, -1)],
    ['large and cut short', gzipSync(large).subarray(0, -1)],
    ['with a wrong check sum', corrupt(gzipSync(small))],
    ['large with a wrong check sum', corrupt(gzipSync(large))],
    // As Triton: deflate is zlib's form of it.
    ['deflate without its frame', deflateRawSync(small)],
  ])('%s', async (_, body) => {
    expect(await inflate(body)).toMatchObject({
      ok: false,
      tooLarge: false,
      error: {
        code: 'INVALID_ARG',
        field: 'body',
        message: expect.stringMatching(/^failed to decompress the request/),
      },
    });
  });
});

it('no bytes at all are refused in the words of Triton', async () => {
  expect(await inflate(Buffer.alloc(0))).toMatchObject({ ok: false, error: { message: 'nothing to be decompressed' } });
});

describe('what becomes larger than the limit is refused', () => {
  it.each([
    ['by a byte, at once', 1_000, gzipSync(Buffer.alloc(1_001))],
    ['by a byte, later', LIMIT, gzipSync(Buffer.alloc(LIMIT + 1))],
    ['a thousandfold', 1_000, gzipSync(Buffer.alloc(1_000_000))],
    ['of two members', 1_000, Buffer.concat([gzipSync(Buffer.alloc(600)), gzipSync(Buffer.alloc(600))])],
    ['that is large as it comes', 100_000, gzipSync(large)],
  ])('%s', async (_, bytesMax, body) => {
    expect(await inflate(body, bytesMax)).toEqual({
      ok: false,
      tooLarge: true,
      error: {
        code: 'INVALID_ARG',
        field: 'body',
        message:
          `decompressed request JSON size exceeds the maximum allowed input size of ${bytesMax} bytes. ` +
          'Use --http-max-input-size to increase the limit.',
      },
    });
  });

  it('without its memory having been taken', async () => {
    const bomb = gzipSync(Buffer.alloc(200_000_000));
    const before = process.memoryUsage().rss;
    expect((await inflate(bomb, 1_000_000)).ok).toBe(false);
    expect(process.memoryUsage().rss - before).toBeLessThan(50_000_000);
  });

  it('also where many come at the same time, in their turn', async () => {
    const bomb = gzipSync(Buffer.alloc(1_000_000));
    const inTurn = createInflate(500_000);
    const ended = Array.from({ length: 20 }, () => new Promise<Inflated>((resolve) => inTurn(bomb, resolve)));
    expect((await Promise.all(ended)).map(({ ok }) => ok)).toEqual(Array(20).fill(false));
    const good = await new Promise<Inflated>((resolve) => inTurn(gzipSync(large), resolve));
    expect(good.ok).toBe(true);
  });
});
