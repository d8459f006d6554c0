import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { FlagRole } from './flag-meta.ts';
import { environmentName, FLAGS, isReadBy } from './flag-table.ts';
import { backendSettings, type Options } from './options.ts';
import { type ParsedOptions, parseOptions } from './options-parse.ts';

const REPOSITORY = '--model-repository=/models';

interface Given {
  readonly argv?: readonly string[];
  readonly env?: Record<string, string>;
  readonly file?: string;
  readonly role?: FlagRole;
}

/** With `file`, `--config f.yaml` is given too. */
function parse({ argv = [REPOSITORY], env = {}, file, role }: Given): ParsedOptions {
  return parseOptions({
    argv: file === undefined ? argv : [...argv, '--config', 'f.yaml'],
    env,
    ...(role === undefined ? {} : { role }),
    readFile: (path) => {
      if (path === 'f.yaml' && file !== undefined) return file;
      throw new Error('ENOENT: no such file or directory');
    },
  });
}

function accept(given: Given): Options {
  const parsed = parse(given);
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.options;
}

function refuse(given: Given): string {
  const parsed = parse(given);
  return parsed.ok ? 'accepted' : parsed.error;
}

function warningsOf(given: Given): readonly string[] {
  const parsed = parse(given);
  return parsed.ok ? parsed.warnings : [parsed.error];
}

describe('forms of a flag', () => {
  it.each<[string, readonly string[], Partial<Options>]>([
    ['--flag=value', ['--http-port=9000'], { httpPort: 9000 }],
    ['--flag value', ['--http-port', '9000'], { httpPort: 9000 }],
    ['an equals sign in the value', ['--backend-config=onnxruntime,a=b=c'], { backendConfig: ['onnxruntime,a=b=c'] }],
    ['an empty value', ['--log-file='], { logFile: '' }],
    ['a boolean alone is true', ['--disable-auto-complete-config'], { disableAutoCompleteConfig: true }],
    [
      'a boolean alone before a flag',
      ['--disable-auto-complete-config', '--id=x'],
      { disableAutoCompleteConfig: true, id: 'x' },
    ],
    ['a boolean and its value apart', ['--allow-http', 'false'], { allowHttp: false }],
    ['a boolean as 0', ['--allow-http=0'], { allowHttp: false }],
    ['a boolean as 1', ['--exit-on-error=1'], { exitOnError: true }],
    ['a boolean in capitals', ['--exit-on-error=FALSE'], { exitOnError: false }],
    ['the last of a flag that is not repeatable holds', ['--id=a', '--id=b'], { id: 'b' }],
    ['a repeatable flag in order', ['--load-model=b', '--load-model', 'a'], { loadModel: ['b', 'a'] }],
    ['a list with commas', ['--worker-models=a,b*', '--worker-models=c'], { workerModels: ['a', 'b*', 'c'] }],
    ['an alias', ['--model-store=/more'], { modelRepository: ['/models', '/more'] }],
    ['a deprecated alias', ['--strict-model-config=true'], { disableAutoCompleteConfig: true }],
    ['a negative number is a value', ['--trace-count', '-1'], { traceCount: -1 }],
  ])('%s', (_rule, argv, expected) => {
    expect(accept({ argv: [REPOSITORY, '--model-control-mode=explicit', ...argv] })).toMatchObject(expected);
  });

  it('defaults are those of Triton', () => {
    expect(accept({})).toStrictEqual({
      id: 'triton',
      adminKey: '',
      bullBoard: false,
      webhookSecret: [],
      webhookAllowPrivate: false,
      nodeId: '',
      exitOnError: true,
      repositoryPollSecs: 15,
      exitTimeoutSecs: 30,
      drainPauseMs: 0,
      rateLimit: 'off',
      cacheConfig: [],
      responseCacheByteSize: 0,
      rateLimitResource: [],
      strictReadiness: true,
      modelRepository: ['/models'],
      modelControlMode: 'none',
      loadModel: [],
      disableAutoCompleteConfig: false,
      modelConfigName: '',
      modelLoadThreadCount: 4,
      modelLoadRetryCount: 0,
      modelNamespacing: false,
      backendConfig: [],
      workerLabels: [],
      workerMaxLoads: 0,
      workerMemoryLimit: 0,
      placement: 'all',
      memoryBudget: [],
      workerModels: [],
      redisUrl: '',
      redisPrefix: 'nereid',
      jobPrefix: 'bull',
      jobsFsync: 'everysec',
      allowEvictingRedis: false,
      timeScale: 1,
      blobDir: '/dev/shm',
      journal: 'off',
      journalConfig: [],
      lane: 'auto',
      dataDir: './.nereid',
      allowHttp: true,
      hostPolicy: [],
      httpAddress: '0.0.0.0',
      httpPort: 8000,
      httpMaxInputSize: 67_108_864,
      allowGrpc: true,
      grpcAddress: '0.0.0.0',
      grpcPort: 8001,
      grpcHeaderForwardPattern: '',
      grpcRestrictedProtocol: [],
      grpcUseSsl: false,
      grpcUseSslMutual: false,
      grpcServerCert: '',
      grpcServerKey: '',
      grpcRootCert: '',
      grpcInferResponseCompressionLevel: 'none',
      grpcKeepaliveTime: 7_200_000,
      grpcKeepaliveTimeout: 20_000,
      grpcKeepalivePermitWithoutCalls: false,
      grpcHttp2MaxPingsWithoutData: 2,
      grpcHttp2MinRecvPingIntervalWithoutData: 300_000,
      grpcHttp2MaxPingStrikes: 2,
      grpcMaxConnectionAge: 0,
      grpcMaxConnectionAgeGrace: 0,
      httpHeaderForwardPattern: '',
      httpRestrictedApi: [],
      httpTlsCert: '',
      httpTlsKey: '',
      httpTlsClientCa: '',
      httpCorsOrigin: [],
      malloc: 'default',
      maxBytesInFlight: 2_147_483_648,
      allowClientShm: true,
      allowCodeUpload: false,
      allowMetrics: true,
      metricsAddress: '',
      metricsPort: 8002,
      logVerbose: 0,
      logInfo: true,
      logWarning: true,
      logError: true,
      logFormat: 'default',
      logFile: '',
      logLevel: 'info',
      logOutput: 'text',
      traceConfig: [],
      traceFile: '',
      traceLevel: [],
      traceRate: 1000,
      traceCount: -1,
      traceLogFrequency: 0,
    });
  });
});

describe('precedence', () => {
  const flag = '--http-port=1';
  const env = { NEREID_HTTP_PORT: '2' };
  const file = 'http-port: 3\n';
  it.each<[string, Given, number]>([
    ['a flag before environment and file', { argv: [REPOSITORY, flag], env, file }, 1],
    ['a flag before the file', { argv: [REPOSITORY, flag], file }, 1],
    ['the environment before the file', { env, file }, 2],
    ['the file before the default', { file }, 3],
    ['the default', {}, 8000],
    ['an empty variable is not set', { env: { NEREID_HTTP_PORT: '' }, file }, 3],
  ])('%s', (_rule, given, port) => {
    expect(accept(given).httpPort).toBe(port);
  });

  it('a repeatable flag takes its values from one source', () => {
    const both = { env: { NEREID_MODEL_REPOSITORY: '/b;/c' }, file: 'model-repository: [/d, /e]' };
    expect(accept(both).modelRepository).toEqual(['/models']);
    expect(accept({ ...both, argv: [] }).modelRepository).toEqual(['/b', '/c']);
    expect(accept({ argv: [], file: both.file }).modelRepository).toEqual(['/d', '/e']);
  });

  it('the environment can name the file', () => {
    const parsed = parseOptions({
      argv: [REPOSITORY],
      env: { NEREID_CONFIG: 'x.json' },
      readFile: (path) => (path === 'x.json' ? '{"id": "from-json", "allow-metrics": false}' : ''),
    });
    expect(parsed).toMatchObject({ ok: true, options: { id: 'from-json', allowMetrics: false } });
  });
});

describe('the file', () => {
  it('reads every scalar as the text that stands there', () => {
    const file = 'id: 007\nlog-file: no\nmodel-config-name: 1e3\nexit-on-error: 0\nload-model: only\n';
    expect(accept({ file })).toMatchObject({
      id: '007',
      logFile: 'no',
      modelConfigName: '1e3',
      exitOnError: false,
      loadModel: ['only'],
    });
  });

  it.each(['', '# nothing\n', '---\n'])('may be empty: %j', (file) => {
    expect(accept({ file }).httpPort).toBe(8000);
  });

  it.each<[string, string, string]>([
    ['an unknown key', 'http-prot: 1', '--config f.yaml: unknown option http-prot: did you mean http-port?'],
    ['an alias of nothing', 'id: *x', '--config f.yaml: Unresolved alias (the anchor must be set before the alias): x'],
    ['a list', '- http-port', '--config f.yaml: must be a mapping of flag names to values, e.g. `http-port: 8000`'],
    [
      'a list for one value',
      'http-port: [1, 2]',
      '--config f.yaml: http-port must be a single value: a whole number from 0 to 65535',
    ],
    [
      'a mapping as value',
      'load-model: {a: b}',
      '--config f.yaml: load-model must be a value or a list of values: a text that is not empty',
    ],
    [
      'a bad value',
      'http-port: eighty',
      "http-port in f.yaml: 'eighty' is not allowed; give a whole number from 0 to 65535",
    ],
    ['another file', 'config: g.yaml', '--config f.yaml: config names another file: options come from one file'],
    ['a key twice', 'id: a\nid: b', '--config f.yaml: Map keys must be unique at line 2, column 1:'],
    ['too long', `id: ${'x'.repeat(1_048_577)}`, '--config f.yaml: longer than 1048576 bytes'],
  ])('%s is refused', (_rule, file, error) => {
    expect(refuse({ file })).toBe(error);
  });

  it('names the file that cannot be read', () => {
    expect(refuse({ argv: [REPOSITORY, '--config=none.yaml'] })).toBe(
      '--config none.yaml: ENOENT: no such file or directory',
    );
  });
});

describe('refusals name the flag and what is allowed', () => {
  it.each<[readonly string[], string]>([
    [['--http-prot=1'], 'unknown option --http-prot: did you mean --http-port?'],
    [['--model-repo=/x'], 'unknown option --model-repo: did you mean --model-repository?'],
    [['--frobnicate-everything'], 'unknown option --frobnicate-everything: see `nereid serve --help`'],
    [['--__proto__=1'], 'unknown option --__proto__: see `nereid serve --help`'],
    [['models'], "unexpected argument 'models': every option begins with --"],
    [['-v'], "unexpected argument '-v': every option begins with --"],
    [['--'], "unexpected argument '--': every option begins with --"],
    [['--http-port'], '--http-port needs a value: a whole number from 0 to 65535'],
    [['--http-port', '--id=x'], '--http-port needs a value: a whole number from 0 to 65535'],
    [['--http-port=65536'], "--http-port: '65536' is not allowed; give a whole number from 0 to 65535"],
    [['--http-port=-1'], "--http-port: '-1' is not allowed; give a whole number from 0 to 65535"],
    [['--http-port=0x10'], "--http-port: '0x10' is not allowed; give a whole number from 0 to 65535"],
    [['--http-port=80.0'], "--http-port: '80.0' is not allowed; give a whole number from 0 to 65535"],
    [['--http-port='], "--http-port: '' is not allowed; give a whole number from 0 to 65535"],
    [
      ['--http-max-input-size=0'],
      "--http-max-input-size: '0' is not allowed; give a whole number from 1 to 1073741824",
    ],
    [['--allow-http=yes'], "--allow-http: 'yes' is not allowed; give true, false, 1 or 0"],
    [['--log-format=iso'], "--log-format: 'iso' is not allowed; give one of default, ISO8601"],
    [['--log-output=xml'], "--log-output: 'xml' is not allowed; give one of text, json"],
    [['--id='], "--id: '' is not allowed; give a text that is not empty"],
    [['--model-config-name=a/b'], "--model-config-name: 'a/b' is not allowed; give <name>"],
    [['--backend-config=onnxruntime'], "--backend-config: 'onnxruntime' is not allowed; give <backend>,<key>=<value>"],
    [
      ['--model-load-thread-count=0'],
      "--model-load-thread-count: '0' is not allowed; give a whole number from 1 to 65536",
    ],
    [
      ['--model-control-mode=toString'],
      "--model-control-mode: 'toString' is not allowed; give one of none, poll, explicit",
    ],
    [
      ['--repository-poll-secs=-1'],
      "--repository-poll-secs: '-1' is not allowed; give a whole number from 0 to 2000000",
    ],
    [['--grpc-port=x'], "--grpc-port: 'x' is not allowed; give a whole number from 0 to 65535"],
    [['--grpc-infer-thread-count=x'], "--grpc-infer-thread-count: 'x' is not allowed; give a whole number"],
    [
      ['--grpc-max-connection-age=-1'],
      "--grpc-max-connection-age: '-1' is not allowed; give a whole number from 0 to 2147483647",
    ],
    [
      ['--grpc-infer-response-compression-level=best'],
      "--grpc-infer-response-compression-level: 'best' is not allowed; give one of none, low, medium, high",
    ],
    [
      ['--grpc-use-ssl', '--grpc-server-cert=a'],
      '--grpc-use-ssl needs --grpc-server-cert and --grpc-server-key: give both',
    ],
    [
      ['--grpc-use-ssl-mutual', '--grpc-server-cert=a', '--grpc-server-key=b'],
      '--grpc-use-ssl-mutual needs --grpc-root-cert: give the certificates that sign those of clients',
    ],
    [['--time-scale=fast'], "--time-scale: 'fast' is not allowed; give a number from 0.1 to 100"],
    [['--time-scale=0'], "--time-scale: '0' is not allowed; give a number from 0.1 to 100"],
    [['--lane=local'], "--lane: 'local' is not allowed; give one of auto, redis"],
    [['--redis-prefix={a}'], "--redis-prefix: '{a}' is not allowed; give letters, digits and _ . : -"],
    [['--job-prefix='], "--job-prefix: '' is not allowed; give a text without blanks"],
    [
      ['--redis-url=redis://a:1,b:2'],
      "--job-prefix=bull has no hash tag, so that a Redis Cluster cannot keep a queue in one place: give e.g. --job-prefix='{bull-%m}'",
    ],
    [
      ['--worker-models=a,,b'],
      "--worker-models: '' is not allowed; give names of models with commas between them; * stands for any text, ? for one character",
    ],
    [
      ['--http-port=9000', '--metrics-port=9000'],
      '--metrics-port and --http-port are both 9000: give each a port of its own',
    ],
    [['--grpc-port=8000'], '--grpc-port and --http-port are both 8000: give each a port of its own'],
    [['--metrics-port=8001'], '--metrics-port and --grpc-port are both 8001: give each a port of its own'],
    [['--http-tls-cert=a.pem'], '--http-tls-cert needs --http-tls-key: give the key of that certificate'],
    [['--http-tls-key=a.pem'], '--http-tls-key needs --http-tls-cert: give the certificate of that key'],
    [
      ['--http-tls-client-ca=a.pem'],
      '--http-tls-client-ca needs --http-tls-cert and --http-tls-key: without TLS no client has a certificate',
    ],
    [
      ['--http-cors-origin=https://a.example/path'],
      "--http-cors-origin: 'https://a.example/path' is not allowed; give * or an origin like https://console.example.org, without a path",
    ],
    [
      ['--max-bytes-in-flight=1000'],
      '--max-bytes-in-flight=1000 is less than --http-max-input-size=67108864: one request of that size could never be taken',
    ],
    [
      ['--host-policy=cpu,weird=3'],
      "--host-policy: 'cpu,weird=3' is not allowed; give <name>,cpu-cores=<first>-<last>[,…] or <name>,numa-node=<number>",
    ],
    [
      ['--host-policy=cpu,cpu-cores=3-1'],
      "--host-policy: 'cpu,cpu-cores=3-1' is not allowed; give <name>,cpu-cores=<first>-<last>[,…] or <name>,numa-node=<number>",
    ],
    [['--http-restricted-api='], '--http-restricted-api: this value is not allowed; give a text that is not empty'],
    [
      ['--model-control-mode=explicit', '--load-model=*', '--load-model=simple'],
      "--load-model: Wildcard model name '*' must be the ONLY startup model if specified at all.",
    ],
  ])('%j', (argv, error) => {
    expect(refuse({ argv: [REPOSITORY, ...argv] })).toBe(error);
  });

  it('without a repository', () => {
    const error = '--model-repository is required, e.g. --model-repository=./model_repository';
    expect(refuse({ argv: [] })).toBe(error);
    expect(refuse({ argv: [], file: 'model-repository: []' })).toBe(error);
  });

  it('a bad variable is named as it stands in the environment', () => {
    expect(refuse({ env: { NEREID_HTTP_PORT: 'x' } })).toBe(
      "NEREID_HTTP_PORT: 'x' is not allowed; give a whole number from 0 to 65535",
    );
  });

  it.each<[string, readonly string[]]>([
    ['any free port', ['--http-port=0', '--metrics-port=0']],
    ['no metrics', ['--metrics-port=8000', '--allow-metrics=false']],
    ['no HTTP', ['--metrics-port=8000', '--allow-http=false']],
    ['no gRPC', ['--metrics-port=8001', '--allow-grpc=false']],
    ['other addresses', ['--metrics-port=8000', '--http-address=10.0.0.1', '--metrics-address=127.0.0.1']],
  ])('one port number twice is no conflict with %s', (_why, argv) => {
    expect(refuse({ argv: [REPOSITORY, ...argv] })).toBe('accepted');
  });
});

describe('--redis-url', () => {
  it.each([
    '',
    'redis://127.0.0.1',
    'redis://user:pass@host:6379/2',
    'rediss://host:6380',
    'unix:///run/a redis.sock',
    'redis-sentinel://a:26379,b:26379/mymaster',
    'redis://a:7000,redis://b:7000',
  ])('%j', (url) => {
    expect(accept({ argv: [REPOSITORY, `--redis-url=${url}`, '--job-prefix={b}'] }).redisUrl).toBe(url);
    expect(accept({ env: { NEREID_REDIS_URL: url, NEREID_JOB_PREFIX: '{b}' } }).redisUrl).toBe(url);
  });

  it.each(['host:6379', 'http://host', 'redis:host', 'unix://socket'])('%j is refused, and not shown', (url) => {
    expect(refuse({ env: { NEREID_REDIS_URL: url } })).toBe(
      'NEREID_REDIS_URL: this value is not allowed; give redis://…, rediss://…, unix:///… or redis-sentinel://<host>:<port>,…/<name>',
    );
  });
});

describe('roles apart', () => {
  const redis = '--redis-url=redis://127.0.0.1';
  const needed: Readonly<Record<FlagRole, readonly string[]>> = {
    gateway: [redis],
    coordinator: [redis, REPOSITORY],
    worker: [redis, REPOSITORY],
  };
  const options = (role: FlagRole, given: Given): Options => {
    const parsed = parse({ ...given, argv: [...needed[role], ...(given.argv ?? [])], role });
    if (!parsed.ok) throw new Error(parsed.error);
    return parsed.options;
  };
  it.each(['coordinator', 'worker'] as const)('the HTTP address of another role moves no metrics of a %s', (role) => {
    const env = { NEREID_HTTP_ADDRESS: '10.0.0.1' };
    const { httpAddress, metricsAddress } = options(role, { env });
    expect([httpAddress, metricsAddress]).toEqual(['0.0.0.0', '']);
  });

  const error = (role: FlagRole, given: Given): string => {
    const parsed = parse({ ...given, argv: [...needed[role], ...(given.argv ?? [])], role });
    return parsed.ok ? 'accepted' : parsed.error;
  };

  it.each<[FlagRole, string, string]>([
    ['worker', '--http-port=1', '--http-port belongs to the gateway: remove it here'],
    ['coordinator', '--allow-grpc=0', '--allow-grpc belongs to the gateway: remove it here'],
    ['gateway', '--model-store=/m', '--model-store belongs to the coordinator and the worker: remove it here'],
    ['gateway', '--worker-models=a', '--worker-models belongs to the worker: remove it here'],
    ['worker', '--job-prefix=b', '--job-prefix belongs to the gateway and the coordinator: remove it here'],
    ['worker', '--jobs-fsync=always', '--jobs-fsync belongs to the gateway and the coordinator: remove it here'],
    ['worker', '--lane=redis', '--lane belongs to `nereid serve`: remove it here'],
    ['coordinator', '--data-dir=/d', '--data-dir belongs to `nereid serve`: remove it here'],
    ['worker', '--time-scal=2', 'unknown option --time-scal: did you mean --time-scale?'],
    ['worker', '--http-prot=2', 'unknown option --http-prot: see `nereid worker --help`'],
  ])('%s refuses %s', (role, flag, text) => {
    expect(error(role, { argv: [flag] })).toBe(text);
  });

  it.each<[FlagRole, string, string]>([
    ['worker', 'redis://a:1,b:2', 'bull'],
    ['gateway', 'redis://u:x,y@a:1,b:2', '{bull-%m}'],
    ['gateway', 'redis://u:x,y@a:1', 'bull'],
    ['coordinator', 'redis-sentinel://a:1,b:2/name', 'bull'],
  ])('%s takes %s with the job prefix %s', (role, url, prefix) => {
    const given = { env: { NEREID_REDIS_URL: url, NEREID_JOB_PREFIX: prefix } };
    expect(options(role, given)).toMatchObject(role === 'worker' ? {} : { jobPrefix: prefix });
  });

  it('flags of other roles in the environment and the file, which roles share, are left unread', () => {
    const shared = {
      env: { NEREID_HTTP_PORT: 'x' },
      file: 'allow-http: false\nload-model: [a]\nlane: redis\nid: shared',
    };
    expect(options('worker', { ...shared, argv: ['--model-control-mode=explicit'] })).toMatchObject({
      id: 'shared',
      loadModel: ['a'],
      httpPort: 8000,
      allowHttp: true,
      lane: 'auto',
    });
    expect(options('gateway', { file: shared.file })).toMatchObject({
      id: 'shared',
      allowHttp: false,
      loadModel: [],
      modelRepository: [],
    });
  });

  it.each<[FlagRole | undefined, number]>([
    [undefined, 8002],
    ['gateway', 8002],
    ['coordinator', 8012],
    ['worker', 8022],
  ])('%s has its default metrics port', (role, port) => {
    const argv = role === undefined ? [REPOSITORY] : needed[role];
    const parsed = parse({ argv, ...(role === undefined ? {} : { role }) });
    expect(parsed).toMatchObject({ ok: true, options: { metricsPort: port } });
    const given = parse({ argv: [...argv, '--metrics-port=7'], ...(role === undefined ? {} : { role }) });
    expect(given).toMatchObject({ ok: true, options: { metricsPort: 7 } });
  });

  it('a port is compared with the HTTP port only where that is listened on', () => {
    expect(error('worker', { argv: ['--metrics-port=8000'] })).toBe('accepted');
    expect(error('gateway', { argv: ['--metrics-port=8000'] })).toMatch(/^--metrics-port and --http-port are both/);
  });

  it.each<FlagRole>(['gateway', 'coordinator', 'worker'])(
    '%s needs a Redis, and a repository if it reads one',
    (role) => {
      const without = '--redis-url is required, e.g. --redis-url=redis://127.0.0.1:6379';
      expect(parse({ argv: needed[role].filter((argument) => argument !== redis), role })).toEqual({
        ok: false,
        error: without,
      });
      expect(parse({ argv: [redis], role }).ok).toBe(role === 'gateway');
    },
  );

  it('the metadata of every flag names roles that exist, and serve reads it', () => {
    for (const flag of FLAGS) expect(isReadBy(flag, undefined), flag.name).toBe(true);
    expect(FLAGS.filter((flag) => flag.roles.length === 0).map((flag) => flag.name)).toEqual(['lane', 'data-dir']);
  });
});

describe('warnings', () => {
  it.each<[Given, readonly string[]]>([
    [
      { argv: [REPOSITORY, '--grpc-infer-thread-count=9'] },
      [
        '--grpc-infer-thread-count has no effect in this version: the gRPC server has one thread, a port of its own and no pools',
      ],
    ],
    [
      { argv: [REPOSITORY, '--metrics-config=a=c', '--metrics-config=d=f'] },
      ['--metrics-config has no effect in this version: latency histograms and summaries are not there yet'],
    ],
    [
      { argv: [REPOSITORY, '--response-cache-byte-size=1024', '--cache-directory=/caches'] },
      [
        '--response-cache-byte-size is deprecated: use --cache-config=local,size=<bytes>',
        '--cache-directory has no effect in this version: caches are part of the server, not libraries in a folder',
      ],
    ],
    [
      { argv: [REPOSITORY, '--cache-config=redis,host=h', '--cache-config=redis,pool_size=4'] },
      ['--cache-config=redis,pool_size has no effect: one connection carries all look-ups'],
    ],
    [
      { argv: [REPOSITORY, '--rate-limit-resource=R:1'] },
      ['--rate-limit-resource has no effect without --rate-limit=execution_count: nothing is limited'],
    ],
    [{ argv: [REPOSITORY, '--rate-limit=execution_count', '--rate-limit-resource=R:1'] }, []],
    [{ argv: [REPOSITORY, '--allow-grpc=false', '--allow-gpu-metrics=0', '--rate-limit=off'] }, []],
    [
      { argv: [REPOSITORY, '--strict-model-config'] },
      ['--strict-model-config is deprecated: use --disable-auto-complete-config'],
    ],
    [
      { argv: [REPOSITORY, '--load-model=simple'] },
      ['--load-model has no effect without --model-control-mode=explicit: every model is loaded'],
    ],
    [{ env: { NEREID_HTTP_PROT: '1' } }, ['NEREID_HTTP_PROT is not read: did you mean NEREID_HTTP_PORT?']],
    [{ env: { NEREID_SAMPLES: 'none' } }, []],
  ])('%j', (given, warnings) => {
    expect(warningsOf(given)).toEqual(warnings);
  });
});

it('every flag of Triton is accepted', () => {
  // server/src/command_line_parser.cc, release 2.73; those of 2.51 are among them.
  const triton =
    `allow-client-shm allow-cpu-metrics allow-gpu-metrics allow-grpc allow-http allow-metrics allow-sagemaker
    allow-vertex-ai backend-config backend-directory buffer-manager-thread-count cache-config cache-directory
    cuda-memory-pool-byte-size cuda-virtual-address-size disable-auto-complete-config enable-peer-access exit-on-error
    exit-timeout-secs grpc-address grpc-header-forward-pattern grpc-http2-max-ping-strikes
    grpc-http2-max-pings-without-data grpc-http2-min-recv-ping-interval-without-data grpc-infer-allocation-pool-size
    grpc-infer-response-compression-level grpc-infer-thread-count grpc-keepalive-permit-without-calls
    grpc-keepalive-time grpc-keepalive-timeout grpc-max-connection-age grpc-max-connection-age-grace
    grpc-max-response-pool-size grpc-port grpc-restricted-protocol grpc-root-cert grpc-server-cert grpc-server-key
    grpc-use-ssl grpc-use-ssl-mutual host-policy http-address http-header-forward-pattern http-max-input-size http-port
    http-restricted-api http-thread-count id load-model log-error log-file log-format log-info log-verbose log-warning
    metrics-address metrics-config metrics-interval-ms metrics-port min-supported-compute-capability model-config-name
    model-control-mode model-load-gpu-limit model-load-retry-count model-load-thread-count model-namespacing
    model-repository model-store pinned-memory-pool-byte-size rate-limit rate-limit-resource repoagent-directory
    repository-poll-secs response-cache-byte-size reuse-grpc-port reuse-http-port sagemaker-port
    sagemaker-safe-port-range sagemaker-thread-count strict-model-config strict-readiness trace-config trace-count
    trace-file trace-level trace-log-frequency trace-rate vertex-ai-default-model vertex-ai-port
    vertex-ai-thread-count`.split(/\s+/);
  const names = new Set(FLAGS.flatMap((flag) => [flag.name, ...(flag.aliases ?? []).map((alias) => alias.name)]));
  expect(triton.filter((name) => !names.has(name))).toEqual([]);
  const ours = FLAGS.filter((flag) => flag.ours === true).map((flag) => flag.name);
  expect([...names].filter((name) => !triton.includes(name)).sort()).toEqual(ours.sort());
});

it('the default of every flag is a value that the flag accepts', () => {
  for (const flag of FLAGS) {
    if (flag.required || flag.repeatable) continue;
    const set = flag.name === 'config' ? [] : [`--${flag.name}=${flag.fallback}`];
    expect(refuse({ argv: [REPOSITORY, ...set] }), flag.name).toBe('accepted');
  }
});

it('backend settings by backend, the last of a key winning', () => {
  expect(
    backendSettings(['a=1', 'onnxruntime,a=2', 'b=3', 'onnxruntime,c=x,y=z', 'python,a=4', 'a=5', ',d=6']),
  ).toEqual({ '': { a: '5', b: '3', d: '6' }, onnxruntime: { a: '2', c: 'x,y=z' }, python: { a: '4' } });
});

describe('whatever is given', () => {
  const name = fc.constantFrom(...FLAGS.map((flag) => flag.name));
  const text = fc.oneof(fc.string(), fc.constantFrom('true', '0', '8000', 'explicit', '*', 'a,b=c', 'f.yaml'));
  const argument = fc.oneof(
    fc.tuple(name, text).map(([flag, value]) => `--${flag}=${value}`),
    name.map((flag) => `--${flag}`),
    text,
  );
  const env = fc.dictionary(name.map(environmentName), text);
  const file = fc.oneof(
    fc.dictionary(name, fc.oneof(text, fc.array(text))).map((keys) => JSON.stringify(keys)),
    fc.string(),
  );

  it('there are options or an error, and nothing is thrown', () => {
    let accepted = 0;
    fc.assert(
      fc.property(fc.array(argument, { maxLength: 4 }), env, file, (argv, variables, source) => {
        const parsed = parseOptions({ argv: [REPOSITORY, ...argv], env: variables, readFile: () => source });
        if (parsed.ok) accepted++;
        else expect(parsed.error).not.toBe('');
      }),
      { numRuns: 500 },
    );
    expect(accepted).toBeGreaterThan(0);
  });
});
