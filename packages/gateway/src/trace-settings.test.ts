import { NO_TRACES, type TraceConfig } from '@nereid/config';
import { createLog, virtualClock } from '@nereid/runtime';
import { createLocalDirectory } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { createTraceSettings, shownTraceSettings } from './trace-settings.ts';

const WITH_FILE: TraceConfig = { ...NO_TRACES, file: 'f' };

/** Everything that is due in microtasks has happened. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/** Processes of one cluster. */
function cluster(start: TraceConfig = WITH_FILE) {
  const values = createLocalDirectory<unknown>();
  const warnings: string[] = [];
  const destination = { write: (line: string) => void warnings.push(JSON.parse(line).msg) };
  const clock = virtualClock();
  const log = createLog({ level: 'warn', destination });
  const process = () => createTraceSettings({ values, start, clock, log });
  return { values, clock, process, warnings };
}

it('what is set at one gateway is what another has, also one that joins later', async () => {
  const { process } = cluster();
  const [a, b] = [process(), process()];
  expect(await a.change('', { rate: 5 })).toMatchObject({ ok: true, value: { rate: 5, count: -1 } });
  await b.change('m', { levels: ['TENSORS'] });
  for (const one of [a, b, process()]) {
    expect(one.current('')).toMatchObject({ levels: [], rate: 5 });
    expect(one.current('m')).toMatchObject({ levels: ['TENSORS'], rate: 5 });
    expect(one.on).toBe(true);
  }
});

it('what cannot be is refused and changes nothing', async () => {
  const { process, values } = cluster(NO_TRACES);
  const one = process();
  expect(await one.change('', { levels: ['TIMESTAMPS'], rate: 7 })).toEqual({
    ok: false,
    error: { code: 'INVALID_ARG', message: 'Attempting to set invalid trace setting :trace file name is not given' },
  });
  expect([one.current('').rate, one.on, values.value('trace-settings')]).toEqual([1000, false, undefined]);
});

it('that no traces are recorded is said once, by flags too', async () => {
  const { process, warnings } = cluster();
  const one = process();
  await one.change('', { rate: 2 });
  expect(warnings).toEqual([]);
  await one.change('', { levels: ['TENSORS'] });
  await one.change('', { levels: [] });
  await one.change('', { levels: ['TENSORS'] });
  expect(warnings).toEqual([expect.stringContaining('records no traces')]);
  const flagged = cluster({ ...WITH_FILE, levels: ['TIMESTAMPS'] });
  expect([flagged.process().on, flagged.warnings.length]).toEqual([true, 1]);
});

describe('requests that are to be traced', () => {
  it('take the count down, every so many-th of them, until it is 0', async () => {
    const { process } = cluster();
    const one = process();
    await one.change('', { levels: ['TIMESTAMPS'], rate: 3, count: 2 });
    const left: number[] = [];
    for (let request = 0; request < 12; request++) {
      one.sample('m');
      left.push(one.current('').count);
    }
    expect(left).toEqual([2, 2, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    await settled();
    expect(one.current('').count).toBe(0);
  });

  it('take the count of the cluster down, whichever gateway has them', async () => {
    const { process, clock } = cluster();
    const [a, b] = [process(), process()];
    await a.change('', { levels: ['TIMESTAMPS'], rate: 1, count: 5 });
    a.sample('m');
    b.sample('n');
    b.sample('n');
    await settled();
    // The second at the same gateway is told of half a second later.
    expect([a.current('').count, b.current('').count, process().current('').count]).toEqual([3, 2, 3]);
    clock.advanceUs(500_000);
    await settled();
    expect([a.current('').count, b.current('').count, process().current('').count]).toEqual([2, 2, 2]);
    clock.advanceUs(500_000);
    expect(clock.liveTimers).toBe(0);
  });

  it('are counted for a model with settings of its own by themselves', async () => {
    const { process } = cluster();
    const one = process();
    await one.change('', { levels: ['TIMESTAMPS'], rate: 1, count: 5 });
    await one.change('m', { count: 3 });
    one.sample('m');
    await settled();
    expect([one.current('').count, one.current('m').count]).toEqual([5, 2]);
    await one.change('m', { levels: [] });
    one.sample('m');
    await settled();
    expect(one.current('m').count).toBe(2);
  });

  it('are counted anew when something was set', async () => {
    const { process } = cluster();
    const one = process();
    await one.change('', { levels: ['TIMESTAMPS'], rate: 2, count: 5 });
    one.sample('m');
    await one.change('', { logFrequency: 1 });
    one.sample('m');
    expect(one.current('').count).toBe(5);
    one.sample('m');
    expect(one.current('').count).toBe(4);
  });

  it('are told later where the cluster cannot be told now', async () => {
    const { values, clock } = cluster();
    const away = { yes: false };
    const log = createLog({ level: 'silent' });
    const setValue: typeof values.setValue = async (...args) => {
      if (away.yes) throw new Error('away');
      return values.setValue(...args);
    };
    const one = createTraceSettings({ values: { ...values, setValue }, start: WITH_FILE, clock, log });
    await one.change('', { levels: ['TIMESTAMPS'], rate: 1, count: 5 });
    away.yes = true;
    one.sample('m');
    await settled();
    const other = createTraceSettings({ values, start: WITH_FILE, clock, log });
    expect([one.current('').count, other.current('').count]).toEqual([4, 5]);
    away.yes = false;
    clock.advanceUs(500_000);
    await settled();
    expect([one.current('').count, other.current('').count]).toEqual([4, 4]);
  });

  it('are told of no more once it is closed, and no timer is left', async () => {
    const { process, clock } = cluster();
    const [one, other] = [process(), process()];
    await one.change('', { levels: ['TIMESTAMPS'], rate: 1, count: 5 });
    one.sample('m');
    one.sample('m');
    await settled();
    one.close();
    expect(clock.liveTimers).toBe(0);
    expect(other.current('').count).toBe(4);
  });
});

describe('settings are shown', () => {
  it('in the mode triton with its file', () => {
    const { process } = cluster();
    expect(shownTraceSettings(process().current(''))).toEqual([
      ['trace_level', ['OFF']],
      ['trace_rate', ['1000']],
      ['trace_count', ['-1']],
      ['log_frequency', ['0']],
      ['trace_file', ['f']],
      ['trace_mode', ['triton']],
    ]);
  });

  it('in the mode opentelemetry with what its exporter is told', () => {
    const exporter = [
      ['url', 'http://c'],
      ['resource', 'a=b'],
      ['resource', 'c=d'],
    ] as const;
    const { process } = cluster({ ...NO_TRACES, mode: 'opentelemetry', levels: ['TIMESTAMPS'], exporter });
    expect(shownTraceSettings(process().current('m'))).toEqual([
      ['trace_level', ['TIMESTAMPS']],
      ['trace_rate', ['1000']],
      ['trace_count', ['-1']],
      ['trace_mode', ['opentelemetry']],
      ['url', ['http://c']],
      ['resource', ['a=b', 'c=d']],
    ]);
  });
});
