import { NereidError } from '@nereid/protocol';
import { createLog, type LogControl, type LogSettings } from '@nereid/runtime';
import { createLocalDirectory } from '@nereid/transport';
import { expect, it } from 'vitest';
import { createLogSettings, followLogSettings } from './log-settings.ts';

const START: LogSettings = { info: true, warning: true, error: true, verboseLevel: 0, format: 'default' };

/** Two processes of one cluster, the second with a file and verbose lines from its flags. */
function processes() {
  const values = createLocalDirectory<unknown>();
  const make = (file: string, start: LogSettings) => {
    const applied: LogSettings[] = [];
    const control: LogControl = { file, start, apply: (settings) => void applied.push(settings) };
    followLogSettings({ values, control, log: createLog({ level: 'silent' }) });
    return { applied, settings: createLogSettings({ values, control }) };
  };
  return { values, make, a: make('', START), b: make('b.log', { ...START, verboseLevel: 1 }) };
}

it('without a change each process has what its flags say', () => {
  const { a, b } = processes();
  expect(a.settings.current()).toEqual({ file: '', ...START });
  expect(b.settings.current()).toEqual({ file: 'b.log', ...START, verboseLevel: 1 });
  expect([...a.applied, ...b.applied]).toEqual([]);
});

it('a change holds in every process at once, and only for what it names', async () => {
  const { a, b } = processes();
  expect(await a.settings.change({ warning: false, format: 'ISO8601' })).toEqual({
    ok: true,
    value: { file: '', ...START, warning: false, format: 'ISO8601' },
  });
  expect(a.applied).toEqual([{ ...START, warning: false, format: 'ISO8601' }]);
  expect(b.applied).toEqual([{ ...START, verboseLevel: 1, warning: false, format: 'ISO8601' }]);
  await b.settings.change({ verboseLevel: 3 });
  expect(a.settings.current()).toMatchObject({ warning: false, verboseLevel: 3 });
  expect(a.applied.at(-1)).toMatchObject({ warning: false, verboseLevel: 3 });
});

it('changes of different settings at once are both kept', async () => {
  const { a, b } = processes();
  await Promise.all([a.settings.change({ info: false }), b.settings.change({ error: false })]);
  expect(a.settings.current()).toMatchObject({ info: false, error: false });
});

it('who joins later has them from its start; without them again its own', async () => {
  const { values, make, a } = processes();
  await values.register({ id: 'gw-1', role: 'gateway', draining: false });
  await a.settings.change({ info: false });
  const late = make('', START);
  expect(late.applied).toEqual([{ ...START, info: false }]);
  await values.leave('gw-1');
  expect(late.settings.current()).toEqual({ file: '', ...START });
  expect(late.applied.at(-1)).toEqual(START);
});

it('what another build has written is read as far as it can be', async () => {
  const { values, a } = processes();
  await values.setValue('log-settings', '{"info":false,"warning":"no","verboseLevel":2,"format":"xml","colour":1}');
  expect(a.settings.current()).toEqual({ file: '', ...START, info: false, verboseLevel: 2 });
});

it('a directory that does not answer is an error, and changes nothing', async () => {
  const { values, a } = processes();
  await a.settings.change({ info: false });
  const control: LogControl = { file: '', start: START, apply: () => {} };
  const away = createLogSettings({
    values: {
      ...values,
      setValue: async () => {
        throw new NereidError('UNAVAILABLE', 'Redis does not answer');
      },
    },
    control,
  });
  expect(await away.change({ error: false })).toEqual({
    ok: false,
    error: { code: 'UNAVAILABLE', message: 'Redis does not answer' },
  });
  expect(away.current()).toMatchObject({ info: false, error: true });
});
