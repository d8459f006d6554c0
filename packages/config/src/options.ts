/**
 * The one schema of the server's options: flags, environment variables, keys of the `--config`
 * file, defaults, help and docs/flags.md all derive from it (flag-table.ts). A key `httpPort` is
 * the flag `--http-port` and the variable `NEREID_HTTP_PORT`. Triton's flags keep Triton's names,
 * meanings and defaults (server/src/command_line_parser.cc).
 */
import { z } from 'zod';
import {
  EVERY_ROLE,
  type FlagMeta,
  type FlagRole,
  flagMetas,
  GATEWAY,
  JOB_ROLES,
  MODEL_ROLES,
  SERVE_ONLY,
  WORKER,
} from './flag-meta.ts';
import { LIMITS } from './limits.ts';
import { listenersConflict } from './listeners-conflict.ts';
import { cacheOptions, readCacheConfig } from './options-cache.ts';
import { grpcConflict, grpcOptions } from './options-grpc.ts';
import { hardwareOptions } from './options-hardware.ts';
import { httpConflict, httpOptions } from './options-http.ts';
import { jobOptions } from './options-jobs.ts';
import { journalOptions, readJournalConfig } from './options-journal.ts';
import { loggingOptions } from './options-logging.ts';
import { placementOptions } from './options-placement.ts';
import { rateOptions } from './options-rate.ts';
import { repositoryOptions } from './options-repository.ts';
import { readTraceConfig, traceOptions } from './options-trace.ts';
import { workerOptions } from './options-worker.ts';
import { hasHashTag, isClusterUrl } from './redis-hash-tag.ts';
import { CONTROL_MODES } from './repository-list.ts';

/** Defaults that hold for the in-process API (`createServer`) too. */
export const DEFAULTS = {
  server_id: 'triton',
  address: '0.0.0.0',
  exit_timeout_s: 30,
  model_load_threads: 4,
  redis_prefix: 'nereid',
  job_prefix: 'bull',
  jobs_fsync: 'everysec',
  data_dir: './.nereid',
  time_scale: 1,
  blob_dir: '/dev/shm',
} as const;

const PORT_MAX = 65_535;
export const JOBS_FSYNC = ['everysec', 'always'] as const;
/** How safe an accepted job is from the death of its Redis (docs/redis.md). */
export type JobsFsync = (typeof JOBS_FSYNC)[number];
/** Node's timers take no longer delay. */
const EXIT_TIMEOUT_S_MAX = 2_000_000;
const DRAIN_PAUSE_MS_MAX = 3_600_000;
/** Below this the margins of leases are shorter than a pause for garbage. */
export const TIME_SCALE_MIN = 0.1;
export const TIME_SCALE_MAX = 100;
/** Its parts are checked by who connects. */
const REDIS_URL = /^(?:(?:rediss?|redis-sentinel):\/\/\S+|unix:\/\/(?:\S+@)?\/.+)?$/;
/** Without braces: each key has a hash tag of its own, and the first one in a key counts. */
const REDIS_PREFIX = /^[\w.:-]+$/;

const server: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Server', roles: EVERY_ROLE };
const models: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Models', roles: MODEL_ROLES };
const redis: Pick<FlagMeta, 'topic' | 'roles' | 'ours'> = { topic: 'Redis', roles: EVERY_ROLE, ours: true };
const http: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'HTTP', roles: GATEWAY };
const metrics: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Metrics', roles: EVERY_ROLE };

const port = (fallback: number) => z.int().min(0).max(PORT_MAX).default(fallback);

export const optionsSchema = z.strictObject({
  id: z
    .string()
    .min(1)
    .default(DEFAULTS.server_id)
    .register(flagMetas, { ...server, description: "The server's name in its metadata." }),
  nodeId: z
    .string()
    .default('')
    .register(flagMetas, {
      ...server,
      ours: true,
      description: "This machine's name in the log. Empty: the host name.",
    }),
  exitOnError: z
    .boolean()
    .default(true)
    .register(flagMetas, {
      ...server,
      description: 'End with exit code 4 when a model fails to load at start. If false, serve the models that loaded.',
    }),
  exitTimeoutSecs: z
    .int()
    .min(0)
    .max(EXIT_TIMEOUT_S_MAX)
    .default(DEFAULTS.exit_timeout_s)
    .register(flagMetas, {
      ...server,
      description: 'Seconds that requests in flight may take to finish after SIGINT or SIGTERM.',
    }),
  drainPauseMs: z
    .int()
    .min(0)
    .max(DRAIN_PAUSE_MS_MAX)
    .default(0)
    .register(flagMetas, {
      ...server,
      roles: GATEWAY,
      ours: true,
      description:
        'Milliseconds from SIGINT or SIGTERM for which the server is not ready and still takes requests, so that balancers send them elsewhere first. They do not count in --exit-timeout-secs.',
    }),
  strictReadiness: z
    .boolean()
    .default(true)
    .register(flagMetas, {
      ...server,
      description: 'Ready only while every model is ready. If false, ready as soon as the server runs.',
    }),

  modelRepository: z
    .array(z.string().min(1))
    .min(1)
    .register(flagMetas, {
      ...models,
      form: '<folder>',
      aliases: [{ name: 'model-store', deprecated: false }],
      description: 'A folder whose sub-folders are the models. Repeat it for several repositories.',
    }),
  modelControlMode: z
    .enum(CONTROL_MODES)
    .default('none')
    .register(flagMetas, {
      ...models,
      description:
        'none: load every model at start. poll: the same, and follow what changes in the repositories. explicit: load those that --load-model names.',
    }),
  ...repositoryOptions,
  loadModel: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...models,
      form: '<model>',
      description: 'A model to load at start in explicit mode; `*` alone for all. Repeat it for several.',
    }),
  disableAutoCompleteConfig: z
    .boolean()
    .default(false)
    .register(flagMetas, {
      ...models,
      aliases: [{ name: 'strict-model-config', deprecated: true }],
      description: 'Never complete a config.pbtxt from the model file: each model must bring a full one.',
    }),
  modelConfigName: z
    .string()
    .regex(/^[^/\\]*$/)
    .default('')
    .register(flagMetas, {
      ...models,
      form: '<name>',
      description: 'Prefer `configs/<name>.pbtxt` of each model to its `config.pbtxt`.',
    }),
  modelLoadThreadCount: z
    .int()
    .min(1)
    .max(LIMITS.models_max)
    .default(DEFAULTS.model_load_threads)
    .register(flagMetas, { ...models, description: 'How many model versions load at the same time.' }),
  backendConfig: z
    .array(z.string().regex(/^(?:[^,=]*,)?[^,=]+=.*$/s))
    .default([])
    .register(flagMetas, {
      ...models,
      form: '<backend>,<key>=<value>',
      description: 'A setting of one backend, or of all as `<key>=<value>`. Repeat it for several.',
    }),
  workerModels: z.array(z.string().min(1)).default([]).register(flagMetas, {
    topic: 'Models',
    roles: WORKER,
    ours: true,
    form: '<glob>,…',
    separator: ',',
    allowed: 'names of models with commas between them; * stands for any text, ? for one character',
    description:
      'This worker holds only the models whose names match one of these (`*` any text, `?` one character); all without it. Repeat it for several.',
  }),
  ...workerOptions,
  ...rateOptions,
  ...cacheOptions,
  ...journalOptions,
  ...placementOptions,

  redisUrl: z
    .string()
    .regex(REDIS_URL)
    .default('')
    .register(flagMetas, {
      ...redis,
      secret: true,
      form: '<url>',
      allowed: 'redis://…, rediss://…, unix:///… or redis-sentinel://<host>:<port>,…/<name>',
      description:
        'The Redis that the roles share: redis://, rediss://, unix:///path or redis-sentinel://host:port,…/name; addresses with commas between them are a Cluster. Empty, for serve only: a private one in --data-dir. Set a URL with a password in the environment, since any user of the machine sees command lines.',
    }),
  redisPrefix: z
    .string()
    .regex(REDIS_PREFIX)
    .default(DEFAULTS.redis_prefix)
    .register(flagMetas, {
      ...redis,
      form: '<prefix>',
      allowed: 'letters, digits and _ . : -',
      description:
        'What every key but those of jobs begins with. The same in all processes that belong together, another for another cluster on one Redis.',
    }),
  jobPrefix: z
    .string()
    .regex(/^\S+$/)
    .default(DEFAULTS.job_prefix)
    .register(flagMetas, {
      ...redis,
      roles: JOB_ROLES,
      form: '<prefix>',
      allowed: 'a text without blanks',
      description:
        "BullMQ's prefix of the job queues; `%m` stands for the model. In a Redis Cluster it must hold a hash tag, e.g. `{bull-%m}`.",
    }),
  jobsFsync: z
    .enum(JOBS_FSYNC)
    .default(DEFAULTS.jobs_fsync)
    .register(flagMetas, {
      ...redis,
      roles: JOB_ROLES,
      description:
        'What an accepted job survives: `everysec` the death of any process but Redis, and an ordered restart of Redis; `always` its kill too, since a job is on disk before its 202. docs/redis.md says what each can lose.',
    }),
  allowEvictingRedis: z
    .boolean()
    .default(false)
    .register(flagMetas, {
      ...redis,
      description:
        'Start also with a Redis whose maxmemory-policy may delete any key: jobs and messages can then vanish.',
    }),
  timeScale: z
    .number()
    .min(TIME_SCALE_MIN)
    .max(TIME_SCALE_MAX)
    .default(DEFAULTS.time_scale)
    .register(flagMetas, {
      ...redis,
      description:
        'Stretches leases, heartbeats and sweeps together, for machines so busy that healthy processes count as dead. The same in all processes that belong together.',
    }),
  blobDir: z
    .string()
    .min(1)
    .default(DEFAULTS.blob_dir)
    .register(flagMetas, {
      ...redis,
      form: '<folder>',
      description:
        'Where processes of one machine and user pass large tensors to each other: a folder in memory (tmpfs). `none`: always through Redis, as it is where the folder cannot be used or is nearly full.',
    }),
  lane: z
    .enum(['auto', 'redis'])
    .default('auto')
    .register(flagMetas, {
      ...redis,
      roles: SERVE_ONLY,
      description:
        'auto: roles in one process pass messages by reference. redis: they pass them through the Redis of --redis-url, or the private one without it, as separate processes do.',
    }),
  dataDir: z
    .string()
    .min(1)
    .default(DEFAULTS.data_dir)
    .register(flagMetas, {
      ...redis,
      roles: SERVE_ONLY,
      form: '<folder>',
      description:
        'The folder of what serve keeps: the socket and the append-only file of the private Redis. One server at a time.',
    }),

  allowHttp: z
    .boolean()
    .default(true)
    .register(flagMetas, { ...http, description: 'Serve the v2 protocol over HTTP.' }),
  httpAddress: z
    .string()
    .min(1)
    .default(DEFAULTS.address)
    .register(flagMetas, { ...http, description: 'The address that the HTTP server listens on.' }),
  httpPort: port(8000).register(flagMetas, {
    ...http,
    description: 'The port that the HTTP server listens on; 0 for any free one.',
  }),
  httpMaxInputSize: z
    .int()
    .min(1)
    .max(LIMITS.body_bytes_raised_max)
    .default(LIMITS.body_bytes_max)
    .register(flagMetas, { ...http, form: '<bytes>', description: 'The largest request body taken, in bytes.' }),
  ...httpOptions,
  ...jobOptions,

  ...grpcOptions,

  allowMetrics: z
    .boolean()
    .default(true)
    .register(flagMetas, { ...metrics, description: 'Serve Prometheus metrics at /metrics.' }),
  metricsAddress: z
    .string()
    .default('')
    .register(flagMetas, {
      ...metrics,
      description:
        'The address that the metrics server, which also answers /v2/health, listens on. Empty: that of --http-address; for a coordinator or worker, which have no HTTP server, 0.0.0.0.',
    }),
  metricsPort: port(8002).register(flagMetas, {
    ...metrics,
    roleFallbacks: { coordinator: 8012, worker: 8022 },
    description: 'The port that the metrics server listens on; 0 for any free one.',
  }),

  ...loggingOptions,

  ...traceOptions,
  ...hardwareOptions,
});

/** Every option, defaulted. */
export type Options = Readonly<z.output<typeof optionsSchema>>;

/** Where metrics are served: where HTTP is, unless said otherwise. Roles without HTTP have its default here. */
export function metricsAddress(options: Pick<Options, 'httpAddress' | 'metricsAddress'>): string {
  return options.metricsAddress === '' ? options.httpAddress : options.metricsAddress;
}

/** What is wrong between options of a role (all of them without one) that are each right, naming the flags; undefined if nothing. */
export function optionsConflict(options: Options, role?: FlagRole): string | undefined {
  if (options.loadModel.length > 1 && options.loadModel.includes('*')) {
    // Triton's own text (core/src/server.cc).
    return "--load-model: Wildcard model name '*' must be the ONLY startup model if specified at all.";
  }
  const isGateway = role === undefined || role === 'gateway';
  const ofHttp = isGateway ? httpConflict(options) : undefined;
  if (ofHttp !== undefined) return ofHttp;
  const ofGrpc = isGateway ? grpcConflict(options) : undefined;
  if (ofGrpc !== undefined) return ofGrpc;
  const ofListeners = listenersConflict([
    { flag: 'http', open: isGateway && options.allowHttp, address: options.httpAddress, port: options.httpPort },
    { flag: 'grpc', open: isGateway && options.allowGrpc, address: options.grpcAddress, port: options.grpcPort },
    { flag: 'metrics', open: options.allowMetrics, address: metricsAddress(options), port: options.metricsPort },
  ]);
  if (ofListeners !== undefined) return ofListeners;
  const traces = readTraceConfig(options);
  if (!traces.ok) return traces.error;
  const cache = readCacheConfig(options);
  if (!cache.ok) return cache.error;
  const journal = readJournalConfig(options);
  if (!journal.ok) return journal.error;
  if (role !== 'worker' && isClusterUrl(options.redisUrl) && !hasHashTag(options.jobPrefix)) {
    return `--job-prefix=${options.jobPrefix} has no hash tag, so that a Redis Cluster cannot keep a queue in one place: give e.g. --job-prefix='{bull-%m}'`;
  }
  return undefined;
}

/**
 * `--backend-config` entries by backend, '' for the settings of all backends; the last of each key
 * wins (as Triton reads them).
 */
export function backendSettings(
  entries: readonly string[],
): Readonly<Record<string, Readonly<Record<string, string>>>> {
  const backends = new Map<string, Map<string, string>>();
  for (const entry of entries) {
    const equals = entry.indexOf('=');
    const comma = entry.slice(0, equals).indexOf(',');
    const backend = comma < 0 ? '' : entry.slice(0, comma);
    const settings = backends.get(backend) ?? new Map<string, string>();
    backends.set(backend, settings.set(entry.slice(comma + 1, equals), entry.slice(equals + 1)));
  }
  return Object.fromEntries([...backends].map(([backend, settings]) => [backend, Object.fromEntries(settings)]));
}
