import type { Tensor } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createKeptTensors } from './kept-tensors.ts';

const LIFETIME_MS = 1_000;
const LIFETIME_US = LIFETIME_MS * 1_000;

function store(bytes_max = 1_000) {
  const clock = virtualClock();
  return { clock, kept: createKeptTensors({ clock, lifetimeMs: LIFETIME_MS, bytes_max }) };
}

function tensor(data: Uint8Array, name = 'Y'): Tensor {
  return { name, datatype: 'UINT8', shape: [data.byteLength], data };
}

describe('a kept tensor', () => {
  it('is found by its name until it is dropped, without a copy', async () => {
    const { kept, clock } = store();
    const made = tensor(new Uint8Array(100));
    const ref = kept.keep('wk-1', made);
    expect(ref).toEqual({ place: 'worker', id: 'wk-1-1', bytes: 100 });
    expect(kept.find({ id: 'wk-1-1' })?.data).toBe(made.data);
    expect(kept.find({ id: 'wk-2-1' })).toBeUndefined();
    expect(kept.bytes).toBe(100);
    let empty = false;
    const over = kept.whenEmpty().then(() => {
      empty = true;
    });
    await Promise.resolve();
    expect(empty).toBe(false);
    kept.drop(['wk-1-1', 'wk-1-7']);
    await over;
    expect([kept.find({ id: 'wk-1-1' }), kept.bytes, clock.liveTimers]).toEqual([undefined, 0, 0]);
    await kept.whenEmpty();
  });

  it('that nobody renews is gone after its lifetime, and others stay', () => {
    const { kept, clock } = store();
    const [a, b] = [1, 2].map(() => kept.keep('wk-1', tensor(new Uint8Array(10))));
    clock.advanceUs(LIFETIME_US / 2);
    kept.renew([a?.id ?? '', 'unknown']);
    clock.advanceUs(LIFETIME_US / 2);
    expect(kept.find({ id: b?.id ?? '' })).toBeUndefined();
    expect(kept.find({ id: a?.id ?? '' })).toBeDefined();
    clock.advanceUs(LIFETIME_US / 2);
    expect([kept.bytes, clock.liveTimers]).toEqual([0, 0]);
  });

  it('of one batch with others holds their buffer, which counts once and as a whole', () => {
    const { kept } = store(100);
    const joined = new Uint8Array(80);
    const first = kept.keep('wk-1', tensor(joined.subarray(0, 40)));
    const second = kept.keep('wk-1', tensor(joined.subarray(40)));
    expect(kept.bytes).toBe(80);
    // No room for a second buffer of that size.
    expect(kept.keep('wk-1', tensor(new Uint8Array(80)))).toBeUndefined();
    kept.drop([first?.id ?? '']);
    expect(kept.bytes).toBe(80);
    kept.drop([second?.id ?? '']);
    expect(kept.bytes).toBe(0);
  });

  it('that is a small part of its buffer is copied', () => {
    const { kept } = store();
    const part = new Uint8Array(900).fill(7).subarray(100, 110);
    const ref = kept.keep('wk-1', tensor(part));
    expect(kept.bytes).toBe(10);
    expect(kept.find({ id: ref?.id ?? '' })?.data).toEqual(new Uint8Array(10).fill(7));
  });

  it('is one too many where it goes beyond the bound, whatever was there before', () => {
    const { kept } = store(100);
    expect(kept.keep('wk-1', tensor(new Uint8Array(101)))).toBeUndefined();
    expect(kept.keep('wk-1', tensor(new Uint8Array(100)))).toBeDefined();
    expect(kept.keep('wk-1', tensor(new Uint8Array(1)))).toBeUndefined();
    kept.clear();
    expect(kept.keep('wk-1', tensor(new Uint8Array(100)))?.id).toBe('wk-1-2');
    kept.clear();
  });
});

/** What a test does to the store; `which` is the position of a tensor among those that were kept. */
const act = fc.oneof(
  fc.record({
    type: fc.constant('keep' as const),
    buffer: fc.nat(4),
    start: fc.nat(60),
    bytes: fc.integer({ min: 1, max: 64 }),
  }),
  fc.record({ type: fc.constantFrom('drop' as const, 'renew' as const), which: fc.nat(20) }),
  fc.record({ type: fc.constant('wait' as const), us: fc.nat(LIFETIME_US) }),
);

it('whatever is done to it, the store has what it should, within its bound, and nothing in the end', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
      const { kept, clock } = store(200);
      const buffers = Array.from({ length: 5 }, (_, at) => new Uint8Array(64).fill(at));
      const model = new Map<string, { readonly data: Uint8Array; untilUs: number }>();
      const ids: string[] = [];
      for (const each of acts) {
        if (each.type === 'keep') {
          const data = (buffers[each.buffer] ?? new Uint8Array()).subarray(each.start, each.start + each.bytes);
          const ref = kept.keep('wk-1', tensor(data));
          if (ref !== undefined) {
            ids.push(ref.id);
            model.set(ref.id, { data, untilUs: clock.nowUs() + LIFETIME_US });
          }
        } else if (each.type === 'wait') {
          clock.advanceUs(each.us);
          for (const [id, { untilUs }] of model) if (untilUs <= clock.nowUs()) model.delete(id);
        } else {
          const id = ids[each.which] ?? 'none';
          const known = model.get(id);
          if (each.type === 'drop') {
            kept.drop([id]);
            model.delete(id);
          } else {
            kept.renew([id]);
            if (known !== undefined) known.untilUs = clock.nowUs() + LIFETIME_US;
          }
        }
        expect(kept.bytes).toBeLessThanOrEqual(200);
        for (const id of ids) expect(kept.find({ id })?.data).toEqual(model.get(id)?.data);
      }
      clock.advanceUs(LIFETIME_US);
      expect([kept.bytes, clock.liveTimers]).toEqual([0, 0]);
    }),
  );
});
