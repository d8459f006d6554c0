import { describe, expect, it } from 'vitest';
import { showRecording } from './recording-show.ts';
import { stateText } from './recording-text.ts';
import { listRecordings, removeRecording } from './recordings.ts';
import { callHost, ID, LOST, RECORDING, SERVER, STEP } from './replay-fixture.ts';

const one = { url: SERVER, id: ID };

describe('nereid replay ls and rm', () => {
  it('asks page by page until it has enough, and says that there may be more', async () => {
    const { host, calls, told } = callHost([
      [200, { recordings: Array.from({ length: 100 }, () => RECORDING), next: ID }],
      [200, { recordings: [{ ...RECORDING, kind: 'request', sequence_id: undefined, request_id: 'r' }], next: 'b' }],
    ]);
    const filter = { model: 'vad', state: 'lost', sequenceId: '5' };
    expect(await listRecordings({ url: SERVER, ...filter, limit: 101, json: false }, host)).toBe(0);
    expect(calls).toEqual([
      'GET ?model=vad&state=lost&sequence_id=5&limit=100',
      `GET ?model=vad&state=lost&sequence_id=5&limit=1&after=${ID}`,
    ]);
    const lines = told().out.split('\n');
    expect(lines[3]).toBe(
      '| vad~gw-1:7 | vad   | 1       | 5         | 2     | lost  | 2026-01-01T00:00:00.000Z | 4096  |',
    );
    expect(lines.at(-3)).toContain('| request r |');
    expect(told().err).toBe('nereid replay ls: there may be more than 101: raise --limit\n');
  });

  it('rm forgets one, or tells why not', async () => {
    const { host, calls, told } = callHost([
      [200, RECORDING],
      [404, { error: `recording '${ID}' is not found` }],
    ]);
    expect([await removeRecording(one, host), await removeRecording(one, host)]).toEqual([0, 1]);
    expect(calls).toEqual([`DELETE /${ID}`, `DELETE /${ID}`]);
    expect(told()).toEqual({ out: `removed ${ID}\n`, err: `nereid replay rm: recording '${ID}' is not found\n` });
  });
});

describe('nereid replay show', () => {
  const options = { ...one, from: 0, limit: 3, all: false, json: false };

  it('tells what it is of, which step took effect last, and the steps', async () => {
    const { host, calls, told } = callHost([
      [200, { recording: RECORDING, steps: [STEP], next: 1 }],
      [200, { recording: RECORDING, steps: [LOST] }],
    ]);
    expect(await showRecording(options, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}?from=0&limit=3&data=true`, `GET /${ID}?from=1&limit=2&data=true`]);
    const { out, err } = told();
    expect(err).toBe('');
    expect(out).toContain(
      'state      lost: step 0 is the last that took effect; step 1 came after it and was lost with what ran it\n',
    );
    const cells = out.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
    expect(cells.filter(([, step]) => step === '0' || step === '1')).toEqual([
      ['', '0', 'START', '+0 ms', '1', 'wk-1 slot 2', '4', '1.25 ms', 'applied', expect.stringMatching(/./), ''],
      ['', '1', '', '+96 ms', '1', 'wk-1 slot 2', '4', '1.25 ms', 'lost', '', ''],
    ]);
    expect(out).toContain('| output FP32[1,1] 0.0123; stateN FP32[2,64] not kept, SHA-256 ab |');
  });

  it('says where to go on', async () => {
    const { host, told } = callHost([[200, { recording: RECORDING, steps: [STEP], next: 1 }]]);
    expect(await showRecording({ ...options, limit: 1, json: true }, host)).toBe(0);
    expect(JSON.parse(told().out)).toEqual({ recording: RECORDING, steps: [STEP] });
    expect(told().err).toBe('nereid replay show: there are more steps: raise --limit, or go on with --from=1\n');
  });

  it('tells one step with its values', async () => {
    const { host, calls, told } = callHost([[200, { recording: RECORDING, steps: [STEP], next: 1 }]]);
    expect(await showRecording({ ...options, step: 0 }, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}?from=0&limit=1&data=true`]);
    expect(told().out).toBe(
      [
        'step     0 of vad~gw-1:7, START',
        'explain  gw-1:7',
        'came     2026-01-01T00:00:00.000Z, +0 ms',
        'ran      version 1 at wk-1, instance 0, slot 2, in a batch of 4: waited 0.20 ms, ran 1.25 ms',
        'effect   applied',
        'parameters',
        '  threshold  0.5',
        '  top        3',
        'inputs',
        '  input   FP32[1,9] 0.1, 0, 0, 0, 0, 0, 0, 0, … (9 in all)',
        '  half    FP16[1] 1.5',
        '  secret  BYTES[1] redacted',
        'outputs',
        '  output  FP32[1,1] 0.0123',
        '  stateN  FP32[2,64] not kept, SHA-256 ab',
        '',
      ].join('\n'),
    );
  });

  it('tells what JSON has no numbers for, and what are no elements', async () => {
    const inputs = [
      { name: 'zeros', datatype: 'FP32', shape: [3], data: ['-0.0', 'NaN', 1.5] },
      { name: 'odd', datatype: 'INT32', shape: [1], b64: 'AQID' },
    ];
    const { host, told } = callHost([[200, { recording: RECORDING, steps: [{ ...STEP, inputs }] }]]);
    await showRecording({ ...options, step: 0 }, host);
    expect(told().out).toContain('  zeros  FP32[3] -0.0, NaN, 1.5\n  odd    INT32[1] base64 of all: AQID\n');
  });

  it('tells all values where asked, and that there is no such step', async () => {
    const shown = callHost([[200, { recording: RECORDING, steps: [STEP] }]]);
    await showRecording({ ...options, step: 0, all: true }, shown.host);
    expect(shown.told().out).toContain('  input   FP32[1,9] 0.1, 0, 0, 0, 0, 0, 0, 0, 0\n');
    const { host, told } = callHost([[200, { recording: RECORDING, steps: [] }]]);
    expect(await showRecording({ ...options, step: 2 }, host)).toBe(1);
    expect(told().err).toBe(`nereid replay show: ${ID} has no step 2: it has 2, from 0\n`);
  });

  it.each([
    [
      { state: 'lost', steps: 3, steps_applied: 3 },
      'lost: step 2 is the last that took effect; after it its state went with its worker',
    ],
    [{ state: 'lost', steps: 1, steps_applied: 0 }, 'lost: no step took effect; step 0 came after it'],
    [{ state: 'gap', steps: 4, steps_applied: 4 }, 'gap: step 4 could not be recorded'],
    [{ state: 'capped', steps: 4, steps_applied: 4 }, 'capped: more came than is kept; step 3 is the last'],
    [{ state: 'ended', steps: 4, steps_applied: 4 }, 'ended'],
  ])('the state of %j in words', (of, text) => {
    expect(stateText({ ...RECORDING, ...of })).toContain(text);
  });
});
