import { describe, expect, it } from 'vitest';
import { type CommandLine, runCommandLine } from './command-line.ts';
import type { ExitCode } from './exit-code.ts';

async function runLine(argv: readonly string[], exit: ExitCode = 0) {
  let out = '';
  let err = '';
  const ran: (readonly [string, readonly string[]])[] = [];
  const checked: unknown[] = [];
  const asked: unknown[] = [];
  const ask = async (options: unknown): Promise<ExitCode> => {
    asked.push(options);
    return 1;
  };
  const line: CommandLine = {
    version: '1.2.3',
    stdout: (text) => {
      out += text;
    },
    stderr: (text) => {
      err += text;
    },
    run: async (command, flags) => {
      ran.push([command, flags]);
      return exit;
    },
    models: {
      check: async ({ repositories, json, autoComplete, modelConfigName, runCode }) => {
        checked.push({ repositories, json, autoComplete, modelConfigName, runCode });
        return 4;
      },
      list: ask,
      load: ask,
      unload: ask,
    },
    listSequences: ask,
    explain: ask,
    evictSequence: ask,
    aliases: { list: ask, set: ask, promote: ask, rollBack: ask, remove: ask },
    jobs: { list: ask, show: ask, retry: ask, cancel: ask, remove: ask, watch: ask },
    followUps: {
      listLetters: ask,
      showLetter: ask,
      replayLetter: ask,
      removeLetter: ask,
      showWebhook: ask,
      resendWebhook: ask,
    },
    replay: { list: ask, show: ask, run: ask, diff: ask, export: ask, import: ask, remove: ask },
  };
  const exitCode = await runCommandLine(argv, line);
  return { exitCode, out, err, ran, checked, asked };
}

describe('the command line', () => {
  it.each<[readonly string[]]>([
    [['--model-repository=/m', '--http-port', '9000', '--allow-http', 'false']],
    [['--log-verbose', '1', '--model-repository', '/m']],
    [['--version=1', '--model-repository=/m']],
    [['stray', '--model-repository=/m']],
    [[]],
  ])('serve gets %j as it is', async (flags) => {
    expect((await runLine(['serve', ...flags])).ran).toEqual([['serve', flags]]);
  });

  it.each(['serve', 'gateway', 'coordinator', 'worker'])('%s runs and ends as it ends', async (command) => {
    expect(await runLine([command, '--redis-url=redis://h'], 3)).toMatchObject({
      exitCode: 3,
      ran: [[command, ['--redis-url=redis://h']]],
    });
  });

  it.each([
    ['serve', ['--http-port', '--model-repository', '--worker-models', '--data-dir'], []],
    ['gateway', ['--http-port', '--redis-url'], ['--model-repository', '--worker-models']],
    ['coordinator', ['--redis-url', '--model-repository'], ['--http-port', '--worker-models']],
    ['worker', ['--redis-url', '--model-repository', '--worker-models'], ['--http-port']],
  ])('%s --help has its options', async (command, own, foreign) => {
    const { exitCode, out, ran } = await runLine([command, '--help']);
    expect([exitCode, ran]).toEqual([0, []]);
    expect(out).toContain(`Usage: nereid ${command} `);
    for (const flag of own) expect(out).toContain(`\n  ${flag}=`);
    for (const flag of foreign) expect(out).not.toContain(`\n  ${flag}=`);
  });

  it.each([
    [['/a'], { repositories: ['/a'], json: false, autoComplete: true, modelConfigName: '', runCode: false }],
    [
      ['/a', '/b', '--json', '--disable-auto-complete-config', '--model-config-name=x', '--run-code'],
      { repositories: ['/a', '/b'], json: true, autoComplete: false, modelConfigName: 'x', runCode: true },
    ],
  ])('models check %j', async (argv, options) => {
    expect(await runLine(['models', 'check', ...argv])).toMatchObject({ exitCode: 4, checked: [options] });
  });

  it.each([
    ['ls', [], { url: 'http://127.0.0.1:8000', json: false }],
    [
      'load',
      ['m', '--config=c.pbtxt', '--file=1/a=a', '--file', 'b=c=d', '--url=http://h:1'],
      { url: 'http://h:1', model: 'm', config: 'c.pbtxt', file: ['1/a=a', 'b=c=d'] },
    ],
    ['load', ['m'], { url: 'http://127.0.0.1:8000', model: 'm' }],
    ['unload', ['m'], { url: 'http://127.0.0.1:8000', model: 'm', unloadDependents: false }],
    ['unload', ['m', '--unload-dependents'], { url: 'http://127.0.0.1:8000', model: 'm', unloadDependents: true }],
  ])('models %s %j', async (command, argv, options) => {
    expect((await runLine(['models', command, ...argv])).asked).toEqual([options]);
  });

  it('aliases set takes versions with weights', async () => {
    const argv = ['aliases', 'set', 'a', 'm', '1=95', '2=5', '--shadow=2=0.1', '--url=http://h:1'];
    expect((await runLine(argv)).asked).toEqual([
      { url: 'http://h:1', name: 'a', model: 'm', versions: ['1=95', '2=5'], shadow: '2=0.1' },
    ]);
  });

  it('models check --help is about this command', async () => {
    const { exitCode, out } = await runLine(['models', 'check', '--help']);
    expect(exitCode).toBe(0);
    expect(out).toContain('Usage: nereid models check [options] <folder...>');
  });

  it.each([['--version']])('%s', async (flag) => {
    expect(await runLine([flag])).toMatchObject({ exitCode: 0, out: '1.2.3\n', err: '' });
  });

  it.each([['--help'], ['-h']])('%s tells what it is, the commands, examples and exit codes', async (flag) => {
    const { exitCode, out, err } = await runLine([flag]);
    expect([exitCode, err]).toEqual([0, '']);
    expect(out).toMatch(/^nereid: an inference server/);
    for (const part of [
      'Commands:',
      '  serve ',
      '  gateway ',
      '  coordinator ',
      '  worker ',
      'Examples:',
      'Exit codes:',
      '  4    a repository cannot be read',
    ]) {
      expect(out).toContain(part);
    }
  });

  it.each<[readonly string[]]>([[['--help']], [['-h']], [['--http-port', '1', '--help']]])(
    'serve %j shows the options and starts nothing',
    async (flags) => {
      const { exitCode, out, ran } = await runLine(['serve', ...flags]);
      expect([exitCode, ran]).toEqual([0, []]);
      expect(out).toContain('\nLogging:\n');
      expect(out).toContain('[default 8000; NEREID_HTTP_PORT]');
    },
  );

  it.each<[readonly string[], string]>([
    [['--http-port=1'], 'nereid: a command comes before --http-port=1: did you mean nereid serve --http-port=1?\n'],
    [['sevre'], "nereid: unknown command 'sevre': Did you mean serve?\n"],
    [['frobnicate'], "nereid: unknown command 'frobnicate'\n"],
    [['-x'], "nereid: unknown option '-x'\n"],
    [['models', 'check'], "nereid: missing required argument 'folder'\n"],
    [['models', 'chek', '/a'], "nereid: unknown command 'chek': Did you mean check?\n"],
  ])('%j exits 2 with one line', async (argv, text) => {
    expect(await runLine(argv)).toMatchObject({ exitCode: 2, out: '', err: text, ran: [] });
  });

  it('alone shows the help on standard error and exits 2', async () => {
    const { exitCode, out, err } = await runLine([]);
    expect([exitCode, out]).toEqual([2, '']);
    expect(err).toContain('Commands:');
  });

  it.each<[readonly string[], unknown]>([
    [['ls'], { url: 'http://127.0.0.1:8000', json: false }],
    [['ls', '--json', '--model=m', '--url', 'http://h:1'], { url: 'http://h:1', model: 'm', json: true }],
    [['evict', 'gw-1:7'], { url: 'http://127.0.0.1:8000', session: 'gw-1:7' }],
    [['evict', '--url=http://h:1', '--model=m', 'gw-1:7'], { url: 'http://h:1', model: 'm', session: 'gw-1:7' }],
  ])('sequences %j asks a server and ends as that ends', async (argv, options) => {
    expect(await runLine(['sequences', ...argv])).toMatchObject({ exitCode: 1, err: '', asked: [options] });
  });

  it.each<[readonly string[], unknown]>([
    [['ls'], { url: 'http://127.0.0.1:8000', limit: 100, json: false }],
    [
      ['ls', '--model=m', '--state=failed', '--tag=t', '--limit=7', '--json'],
      { url: 'http://127.0.0.1:8000', model: 'm', state: 'failed', tag: 't', limit: 7, json: true },
    ],
    [['show', 'm~1', '--json'], { url: 'http://127.0.0.1:8000', id: 'm~1', json: true }],
    [['retry', 'm~1'], { url: 'http://127.0.0.1:8000', id: 'm~1' }],
    [['cancel', 'm~1', '--url=http://h:1'], { url: 'http://h:1', id: 'm~1' }],
    [['rm', 'm~1'], { url: 'http://127.0.0.1:8000', id: 'm~1' }],
    [['watch', 'm~1'], { url: 'http://127.0.0.1:8000', id: 'm~1', json: false }],
  ])('jobs %j asks a server and ends as that ends', async (argv, options) => {
    expect(await runLine(['jobs', ...argv])).toMatchObject({ exitCode: 1, err: '', asked: [options] });
  });

  it.each<[readonly string[], RegExp]>([
    [['ls', '--limit=0'], /It must be a whole number from 1/],
    [['watc', 'x'], /unknown command 'watc': Did you mean watch\?/],
    [['rm'], /missing required argument 'id'/],
  ])('jobs %j is 2, with what is wrong', async (argv, text) => {
    const { exitCode, err, asked } = await runLine(['jobs', ...argv]);
    expect([exitCode, asked]).toEqual([2, []]);
    expect(err).toMatch(text);
  });

  it.each<[readonly string[], object]>([
    [['ls', '--sequence-id=5', '--state=lost'], { limit: 100, json: false, sequenceId: '5', state: 'lost' }],
    [['show', 'm~gw:1'], { id: 'm~gw:1', from: 0, limit: 100, all: false, json: false }],
    [['show', 'm~gw:1', '--step=0', '--all'], { step: 0, all: true }],
    [['run', 'm~gw:1'], { id: 'm~gw:1', record: false, stopAtFirst: false, json: false }],
    [
      ['run', 'm~gw:1', '--version=2', '--pace=2.5', '--from=3', '--until', '9', '--atol=1e-6', '--rtol=0', '--record'],
      { version: '2', pace: 2.5, from: 3, until: 9, atol: 1e-6, rtol: 0, record: true },
    ],
    [['run', 'm~gw:1', '--pace=recorded', '--stop-at-first'], { pace: 'recorded', stopAtFirst: true }],
    [['run', 'm~gw:1', '--replace=12=a=b.json'], { replace: { step: 12, file: 'a=b.json' } }],
    [['diff', 'a.nrj', 'm~gw:1', '--atol=1'], { recordings: ['a.nrj', 'm~gw:1'], atol: 1, json: false }],
    [['export', 'm~gw:1', '--out=-', '--gzip'], { id: 'm~gw:1', out: '-', gzip: true, asTest: false }],
    [['import', '-', '--url=http://h:1'], { url: 'http://h:1', file: '-' }],
    [['rm', 'm~gw:1'], { url: 'http://127.0.0.1:8000', id: 'm~gw:1' }],
  ])('replay %j asks a server and ends as that ends', async (argv, options) => {
    expect(await runLine(['replay', ...argv])).toMatchObject({ exitCode: 1, err: '', asked: [options] });
  });

  it.each<[readonly string[], RegExp]>([
    [['run'], /missing required argument 'id'/],
    [['run', 'x', '--pace=0'], /It must be recorded, flat, or a factor above 0/],
    [['run', 'x', '--pace='], /a factor above 0/],
    [['run', 'x', '--from=-1'], /It must be the number of a step, from 0/],
    [['run', 'x', '--atol=-1'], /It must be a number from 0/],
    [['run', 'x', '--replace=file.json'], /the number of a step and a file, e\.g\. 12=inputs\.json/],
    [['run', 'x', '--stop-at-frist'], /Did you mean --stop-at-first/],
    [['diff', 'a'], /missing required argument 'b'/],
    [['show', 'x', '--limit=0'], /It must be a whole number from 1/],
  ])('replay %j is 2, with what is wrong', async (argv, text) => {
    const { exitCode, err, asked } = await runLine(['replay', ...argv]);
    expect([exitCode, asked]).toEqual([2, []]);
    expect(err).toMatch(text);
  });

  it('explain asks a server for an id', async () => {
    const options = { url: 'http://h:1', json: false, limit: '3', id: 'mine' };
    const argv = ['explain', 'mine', '--url=http://h:1', '--limit=3'];
    expect(await runLine(argv)).toMatchObject({ exitCode: 1, err: '', asked: [options] });
    expect(await runLine(['explain'])).toMatchObject({ exitCode: 2, asked: [] });
  });

  it.each<[readonly string[], RegExp]>([
    [['ls', '--jsn'], /unknown option '--jsn': Did you mean --json\?/],
    [['lst'], /unknown command 'lst': Did you mean ls\?/],
    [['evict'], /missing required argument 'session'/],
  ])('sequences %j is 2, with the nearest name', async (argv, text) => {
    const { exitCode, err, asked } = await runLine(['sequences', ...argv]);
    expect([exitCode, asked]).toEqual([2, []]);
    expect(err).toMatch(text);
  });
});
