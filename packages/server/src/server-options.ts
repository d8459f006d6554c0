import type {
  CacheConfig,
  ControlMode,
  GRPC_COMPRESSION_LEVELS,
  JobsFsync,
  JournalConfig,
  PlacementMode,
  ResourceLimit,
  TraceConfig,
} from '@nereid/config';
import type { ConnectionRules } from '@nereid/gateway';
import type { Log, LogControl } from '@nereid/runtime';

export interface ListenerOptions {
  /** Default 0.0.0.0. */
  readonly address?: string;
  /** 0 takes any free port; `urls` tells which. */
  readonly port: number;
}

export interface HttpOptions extends ListenerOptions {
  /** Largest request body in bytes, 64 MiB by default. */
  readonly maxInputBytes?: number;
  /** Headers whose names match this expression of RE2 reach models as parameters; none by default. */
  readonly headerForwardPattern?: string;
  /** `<api>,…:<header>=<value>` for APIs that need a header; none by default. */
  readonly restrictedApi?: readonly string[];
  /** Serves HTTP over TLS only. */
  readonly tls?: TlsFileOptions;
  /** Origins whose web pages may call, or `*`; none by default. */
  readonly corsOrigins?: readonly string[];
  /** What calls of ours that change something must have in the header `Nereid-Admin-Key`; by default only callers on this machine may make them. */
  readonly adminKey?: string;
  /** Serves bull-board, a page of the job queues, at `/bull-board/`; false by default. */
  readonly bullBoard?: boolean;
}

/** Files in PEM; they are read again when they change. */
export interface TlsFileOptions {
  readonly cert: string;
  readonly key: string;
  /** With it only clients with a certificate that one of these has signed are served. */
  readonly clientCa?: string | undefined;
}

export interface GrpcOptions extends ListenerOptions {
  /** Over TLS only. */
  readonly tls?: TlsFileOptions;
  /** How hard answers of inference are compressed for clients that take it, `none` by default. */
  readonly compressionLevel?: (typeof GRPC_COMPRESSION_LEVELS)[number];
  /** How connections are kept and ended; what is left out is as Triton's flags have it. */
  readonly connections?: Partial<ConnectionRules>;
  /** Metadata whose names match this expression of RE2 reaches models as parameters; none by default. */
  readonly headerForwardPattern?: string;
  /** `<api>,…:<key>=<value>` for calls that need metadata; none by default. */
  readonly restrictedProtocol?: readonly string[];
}

export interface WebhookOptions {
  /** `whsec_` and base64 of 24 to 64 bytes, as Standard Webhooks has them; each signs. */
  readonly secrets: readonly string[];
  /** Send to private addresses too; false by default. */
  readonly allowPrivate?: boolean;
}

export interface RedisOptions {
  /** `redis://`, `rediss://`, `unix://`, `redis-sentinel://h:p,h:p/name`, or a comma list for a Cluster. */
  readonly url: string;
  /** Begins every key of ours, `nereid` by default. */
  readonly prefix?: string;
  /** Use a Redis whose maxmemory-policy may evict keys. */
  readonly allowEvicting?: boolean;
  /** A folder in memory for large tensors between processes of one machine, `/dev/shm` by default; '' for none. */
  readonly blobDirectory?: string;
}

export interface PrivateRedisOptions {
  /** A folder of this server alone: the Redis' socket and append-only file. */
  readonly dataDirectory: string;
  /** Where `redis-server` or `valkey-server` is looked for: a PATH. */
  readonly searchPath: string;
}

/** All roles in the caller's process. Names are those of the flags (docs/flags.md) where there is one. */
export interface ServerOptions {
  /** Folders that hold one folder per model; in clouds by their URLs, `s3://…`, `gs://…` or `as://…`. */
  readonly modelRepositories: readonly string[];
  /** Variables by which clouds' credentials are found (docs/repositories.md); none by default. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  /**
   * `none` loads every model at start; `poll` too, and follows what changes in the repositories; `explicit` loads only
   * `loadModels` and what `loadModel` is called for.
   */
  readonly modelControlMode?: ControlMode;
  /** For `poll`: seconds between two looks at the repositories, 15 by default; 0 for none. */
  readonly repositoryPollSecs?: number;
  /** Lets repositories hold models of the same name, which are then asked for as `<repository>::<name>`; false by default. */
  readonly modelNamespacing?: boolean;
  /** For `explicit`: names, or `['*']` for all. */
  readonly loadModels?: readonly string[];
  /** With true (the default) a model that does not load at start makes `createServer` throw. */
  readonly exitOnError?: boolean;
  /** With true (the default) the server is ready only while every model is. */
  readonly strictReadiness?: boolean;
  /** Fill what a config leaves out from the model's own file; true by default. */
  readonly autoCompleteConfig?: boolean;
  /** Take `configs/<name>.pbtxt` in place of `config.pbtxt` where a model has it. */
  readonly modelConfigName?: string;
  /** Versions that load at the same time, 4 by default. */
  readonly modelLoadThreads?: number;
  /** How often the load of a version is tried again; 0 by default. */
  readonly modelLoadRetries?: number;
  /** `execution_count`: executions wait for the resources that configs say they need; `off` by default. */
  readonly rateLimit?: 'off' | 'execution_count';
  /** How much there is of each resource; without any as much as the greediest instance needs. */
  readonly rateLimitResources?: readonly ResourceLimit[];
  /** Where answers of models with `response_cache` are kept; none are without it. The same in all processes of a cluster. */
  readonly cache?: CacheConfig;
  /** What is recorded for replay, and how much of it is kept; what models' configs and requests ask for, by the defaults, without it. */
  readonly journal?: Partial<JournalConfig>;
  /** By backend name, '' for all: key to value. */
  readonly backendConfig?: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** The server's name in its metadata, `triton` by default as there. */
  readonly id?: string;
  /** The Redis of a cluster to be part of. Without it the server is by itself. */
  readonly redis?: RedisOptions;
  /** Without `redis`: a Redis child of this server for its jobs, and with `lane: 'redis'` for its messages. Without either there are no jobs. */
  readonly privateRedis?: PrivateRedisOptions;
  /** BullMQ's key prefix of the job queues, `bull` by default; `%m` stands for the model. */
  readonly jobPrefix?: string;
  /** What an accepted job survives: `always` also a kill of its Redis; `everysec` by default. */
  readonly jobsFsync?: JobsFsync;
  /** False: jobs go by BullMQ's public API alone, not by our own scripts; for tests. */
  readonly jobScripts?: boolean;
  /** `redis` sends through Redis also what stays in this process; needs `redis` or `privateRedis`. */
  readonly lane?: 'auto' | 'redis';
  /** Stretches leases, heartbeats and sweeps together, 1 by default. */
  readonly timeScale?: number;
  /** Models that this worker holds, as globs; all by default. */
  readonly workerModels?: readonly string[];
  /** `on-demand`: models are loaded when they are asked for; `all`, the default, by each worker that takes them. */
  readonly placement?: PlacementMode;
  /** Bytes that models may take in this worker, by device (`cpu`, `gpu0` …); without a bound by default. */
  readonly memoryBudget?: Readonly<Record<string, number>>;
  /** Labels that this worker carries; none by default. */
  readonly workerLabels?: Readonly<Record<string, string>>;
  /** CUDA_VISIBLE_DEVICES of this process: the GPUs that it can use; all of the machine by default. */
  readonly cudaVisibleDevices?: string;
  /** `<name>,cpu-cores=<first>-<last>[,…]` or `<name>,numa-node=<number>`; none by default. */
  readonly hostPolicy?: readonly string[];
  /** Bytes that requests and answers may take together, 2 GiB by default; more requests are refused with 503. */
  readonly maxBytesInFlight?: number;
  /** With true (the default) clients may register shared memory. */
  readonly allowClientShm?: boolean;
  /** With true any client may load models from code that it sends; false by default. */
  readonly allowCodeUpload?: boolean;
  /** Webhooks of jobs; refused, and not sent, without secrets. */
  readonly webhooks?: WebhookOptions;
  /** No HTTP listener without it. */
  readonly http?: HttpOptions;
  /** No gRPC listener without it. */
  readonly grpc?: GrpcOptions;
  /** No metrics listener without it. */
  readonly metrics?: ListenerOptions;
  /** No log without it. */
  readonly log?: Log;
  /** Changes that log as Triton's log settings say; without it they have no effect on the log. */
  readonly logControl?: LogControl;
  /** The trace settings to begin with; nothing is traced without them. */
  readonly traces?: TraceConfig;
}
