import { describe, expect, it } from 'vitest';
import { differenceText } from './difference-text.ts';
import { type Answer, callHost, DIFFERENCE, ID, SERVER, SHOWN } from './replay-fixture.ts';
import { runReplay } from './replay-run.ts';

const one = { url: SERVER, id: ID };

describe('nereid replay run', () => {
  const options = { ...one, record: false, stopAtFirst: false, json: false };
  const step = (number: number, equal = true) => `${JSON.stringify({ step: number, equal, took_ms: 1 })}\n`;
  const end = (members: object) => `${JSON.stringify({ steps: 2, compared: 2, ...members })}\n`;

  it.each<[string, string, object, number, string]>([
    ['equal', step(0) + step(1), { result: 'equal' }, 0, 'equal: 2 steps compared\n'],
    [
      'equal, recorded and with another configuration',
      `${step(0)}\n${step(1)}`,
      { result: 'equal', compared: 1, recording: 'vad~gw-1:9', config_changed: true },
      0,
      "equal: 1 step compared; the model's configuration or files are not the recorded ones; recorded as vad~gw-1:9\n",
    ],
    ['different', step(0), { result: 'differs', first_difference: DIFFERENCE }, 1, `differs at ${SHOWN}\n`],
    [
      'different at several',
      step(0, false) + step(1, false),
      { result: 'differs', first_difference: DIFFERENCE },
      1,
      `differs at ${SHOWN}; 2 of 2 steps differ\n`,
    ],
  ])('%s: one verdict, and its exit code', async (_what, steps, verdict, exitCode, out) => {
    const { host, calls, told } = callHost([[200, steps + end(verdict)]]);
    expect(await runReplay(options, host)).toBe(exitCode);
    expect(calls).toEqual([`POST /${ID}/replay {"record":false,"stop_at_first":false}`]);
    expect(told()).toEqual({ out, err: '' });
  });

  it('sends what is asked for, with the text of the file as it is', async () => {
    const inputs = '{"inputs": [{"name": "A", "datatype": "INT64", "shape": [1], "data": [9007199254740993]}]}';
    const { host, calls } = callHost([[200, end({ result: 'equal' })]], { 'f.json': `\n ${inputs}\n` });
    const asked = { version: '2', pace: 2.5, from: 3, until: 9, atol: 1e-6, replace: { step: 4, file: 'f.json' } };
    expect(await runReplay({ ...options, ...asked }, host)).toBe(0);
    expect(calls).toEqual([
      `POST /${ID}/replay {"version":"2","pace":2.5,"from":3,"until":9,"atol":0.000001,"record":false,"stop_at_first":false,"replace":{"step":4,${inputs.slice(1)}}`,
    ]);
  });

  it('takes a step as show --json tells it, and sends its inputs', async () => {
    const inputs = '[{"name":"A","datatype":"FP32","shape":[3],"byte_size":12,"data":[0.5,-0,0]}]';
    const shown = `{"step":4,"token":"gw:5","inputs":${inputs},"effect":"applied","answers":[]}\n`;
    const { host, calls } = callHost([[200, end({ result: 'equal' })]], { 'step.json': shown });
    await runReplay({ ...options, replace: { step: 4, file: 'step.json' } }, host);
    expect(calls).toEqual([expect.stringMatching(/"replace":\{"step":4,"inputs":(\[.*\])\}\}$/)]);
    expect(calls[0]).toContain(`"inputs":${inputs}}}`);
  });

  it.each([
    ['none', 'no such file'],
    ['text', 'Unexpected'],
    ['list', 'it is no JSON object'],
    ['empty', "it has no 'inputs'"],
    ['more', "it has the member 'step'"],
  ])('a file that is %s asks nobody', async (file, why) => {
    const files = { text: 'x', list: '[]', empty: '{}', more: '{"inputs": [], "step": 3}' };
    const { host, calls, told } = callHost([], files);
    expect(await runReplay({ ...options, replace: { step: 4, file } }, host)).toBe(2);
    expect([calls, told().out]).toEqual([[], '']);
    expect(told().err).toMatch(new RegExp(`^nereid replay run: could not run: --replace=4=${file}: .*${why}.*\n$`));
  });

  it.each<[string, Answer, string]>([
    ['the server refuses it', [404, { error: 'no version 9' }], 'no version 9'],
    ['it fails', [200, step(0) + end({ result: 'failed', error: { code: 'INTERNAL', message: 'x' } })], 'INTERNAL: x'],
    [
      'it fails at a step',
      [200, end({ result: 'failed', error: { code: 'INVALID_ARG', reason: 'sequence_lost', message: 'x', step: 3 } })],
      'could not run: step 3: INVALID_ARG (sequence_lost): x',
    ],
    ['nobody answers', new Error('refused'), `no server answers at ${SERVER}`],
    ['the connection breaks', { broken: [step(0)] }, 'the connection broke off after 1 steps: reset'],
    ['the answer ends too early', [200, step(0) + step(1)], 'the server ended it after 2 steps'],
    ['it is another server', [200, '<html>\n'], 'no JSON'],
  ])('is 2 where %s', async (_what, answer, why) => {
    const { host, told } = callHost([answer]);
    expect(await runReplay(options, host)).toBe(2);
    expect(told().out).toBe('');
    expect(told().err).toMatch(/^nereid replay run: could not run: [^\n]*\n$/);
    expect(told().err).toContain(why);
  });

  it('prints the lines as they come as JSON, and tells a terminal how far it is otherwise', async () => {
    const lines = step(0) + end({ result: 'equal' });
    const json = callHost([[200, lines]], {}, true);
    expect(await runReplay({ ...options, json: true }, json.host)).toBe(0);
    expect(json.told()).toEqual({ out: lines, err: '' });
    const plain = callHost([[200, lines]], {}, true);
    await runReplay(options, plain.host);
    expect(plain.told().err).toBe('\r\u001b[Kstep 0: 1 replayed, 0 differ\r\u001b[K');
  });
});

describe('what differs', () => {
  it.each<[object, string]>([
    [{ kind: 'answers', recorded: 3, replayed: 2 }, 'step 1: recorded answers: 3, replayed answers: 2'],
    [
      { kind: 'error', answer: 1, recorded: { code: 'INTERNAL', message: 'x' }, replayed: null },
      'step 1, answer 1: recorded the error INTERNAL: x, replayed none',
    ],
    [
      { kind: 'missing', output: 'a', recorded: { datatype: 'FP32', shape: [1, 2] }, replayed: null },
      'step 1, output a: recorded FP32[1,2], replayed none',
    ],
    [{ kind: 'shape', output: 'a', recorded: [1, 2], replayed: [2] }, 'recorded shape [1,2], replayed shape [2]'],
    [{ kind: 'digest', output: 'a', recorded: 'ab', replayed: 'cd' }, 'recorded SHA-256 ab, replayed SHA-256 cd'],
    [
      {
        kind: 'value',
        output: 'a',
        index: [],
        recorded: '9007199254740993',
        replayed: '-0',
        differing: 1,
        elements: 1,
      },
      'step 1, output a: recorded 9007199254740993, replayed -0',
    ],
    [
      { kind: 'value', output: 'a', recorded: { base64: '/w==' }, replayed: 0.1 },
      'recorded bytes /w== (base64), replayed 0.1',
    ],
  ])('%j in words', (difference, text) => {
    expect(differenceText({ step: 1, ...difference } as never)).toContain(text);
  });
});
