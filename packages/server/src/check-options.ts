import {
  CACHE_ANSWER_MS_MAX,
  CACHE_TTL_S_MAX,
  CONTROL_MODES,
  GRPC_COMPRESSION_LEVELS,
  HOST_POLICY_FORM,
  isWebhookSecret,
  JOBS_FSYNC,
  JOURNAL_KEYS,
  JOURNAL_LEAST,
  LABELS_FORM,
  LIMITS,
  labelsText,
  MODEL_LOAD_RETRIES_MAX,
  PLACEMENTS,
  REPOSITORY_POLL_SECS_MAX,
  readHostPolicies,
  readLabelPairs,
  TIME_SCALE_MAX,
  TIME_SCALE_MIN,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { grpcSettings } from './grpc-settings.ts';
import { httpSettings } from './http-settings.ts';
import type { GrpcOptions, HttpOptions, ServerOptions, WebhookOptions } from './server-options.ts';

const PORT_MAX = 65_535;
const INT32_MAX = 2_147_483_647;
const BOOLEANS = [
  'exitOnError',
  'strictReadiness',
  'autoCompleteConfig',
  'allowClientShm',
  'allowCodeUpload',
  'modelNamespacing',
] as const;
const MODES: readonly unknown[] = CONTROL_MODES;
const LANES: readonly unknown[] = ['auto', 'redis'];
const RATE_LIMITS: readonly unknown[] = ['off', 'execution_count'];
/** As many as the flag takes. */
const RESOURCES_MAX = 999_999_999;

/**
 * Throws INVALID_ARG naming the first option that cannot be used. Callers in plain JavaScript send
 * anything, and a wrong bound would silently serve nothing or lift a limit. Bounds are the flags'.
 */
export function checkServerOptions(options: ServerOptions): void {
  if (typeof options !== 'object' || options === null) throw wrong('options', 'an object');
  const { modelRepositories, modelControlMode, loadModels, modelLoadThreads, modelLoadRetries, http, grpc, metrics } =
    options;
  if (!isTexts(modelRepositories)) throw wrong('modelRepositories', 'an array of folders');
  if (modelControlMode !== undefined && !MODES.includes(modelControlMode)) {
    throw wrong('modelControlMode', "'none', 'poll' or 'explicit'");
  }
  if (loadModels !== undefined && !isTexts(loadModels)) throw wrong('loadModels', 'an array of names');
  checkCluster(options);
  checkPlacement(options);
  checkRateLimit(options);
  checkCache(options);
  checkJournal(options);
  checkHardware(options);
  for (const name of BOOLEANS) {
    if (options[name] !== undefined && typeof options[name] !== 'boolean') throw wrong(name, 'true or false');
  }
  checkInteger('repositoryPollSecs', options.repositoryPollSecs, 0, REPOSITORY_POLL_SECS_MAX);
  checkInteger('modelLoadThreads', modelLoadThreads, 1, LIMITS.models_max);
  checkInteger('modelLoadRetries', modelLoadRetries, 0, MODEL_LOAD_RETRIES_MAX);
  checkInteger('http.maxInputBytes', http?.maxInputBytes, 1, LIMITS.body_bytes_raised_max);
  checkInteger('maxBytesInFlight', options.maxBytesInFlight, 1, Number.MAX_SAFE_INTEGER);
  for (const [name, listener] of [
    ['http', http],
    ['grpc', grpc],
    ['metrics', metrics],
  ] as const) {
    if (listener === undefined) continue;
    if (typeof listener !== 'object' || listener === null || listener.port === undefined) {
      throw wrong(name, 'an object with a port');
    }
    checkInteger(`${name}.port`, listener.port, 0, PORT_MAX);
  }
  if (options.webhooks !== undefined) checkWebhooks(options.webhooks);
  if (http !== undefined) checkHttp(http);
  if (grpc !== undefined) checkGrpc(grpc);
}

function checkHttp(http: HttpOptions): void {
  for (const name of ['restrictedApi', 'corsOrigins'] as const) {
    if (http[name] !== undefined && !isTexts(http[name])) throw wrong(`http.${name}`, 'an array of texts');
  }
  if (http.bullBoard !== undefined && typeof http.bullBoard !== 'boolean')
    throw wrong('http.bullBoard', 'true or false');
  if (http.adminKey !== undefined && !isTexts([http.adminKey])) throw wrong('http.adminKey', 'a text');
  // What only its user can judge: a pattern, a list, files.
  httpSettings(http);
}

function checkWebhooks({ secrets, allowPrivate }: WebhookOptions): void {
  if (!isTexts(secrets) || !secrets.every(isWebhookSecret)) {
    throw wrong('webhooks.secrets', 'an array of whsec_ and the base64 of 24 to 64 bytes');
  }
  if (allowPrivate !== undefined && typeof allowPrivate !== 'boolean')
    throw wrong('webhooks.allowPrivate', 'true or false');
}

function checkGrpc(grpc: GrpcOptions): void {
  const { compressionLevel, connections = {}, tls } = grpc;
  if (compressionLevel !== undefined && !GRPC_COMPRESSION_LEVELS.includes(compressionLevel)) {
    throw wrong('grpc.compressionLevel', `one of ${GRPC_COMPRESSION_LEVELS.join(', ')}`);
  }
  for (const [name, value] of Object.entries(connections)) {
    if (typeof value === 'boolean') continue;
    checkInteger(`grpc.connections.${name}`, value, 0, INT32_MAX);
  }
  if (tls !== undefined && !isTexts([tls?.cert, tls?.key, tls?.clientCa ?? 'none'])) {
    throw wrong('grpc.tls', 'an object with the files cert and key');
  }
  // What only its user can judge: a pattern, a list, files.
  grpcSettings(grpc);
}

function checkHardware({ hostPolicy, cudaVisibleDevices }: ServerOptions): void {
  if (cudaVisibleDevices !== undefined && typeof cudaVisibleDevices !== 'string') {
    throw wrong('cudaVisibleDevices', 'a text');
  }
  if (hostPolicy === undefined) return;
  if (!isTexts(hostPolicy) || readHostPolicies(hostPolicy) === undefined) {
    throw wrong('hostPolicy', `an array of ${HOST_POLICY_FORM}`);
  }
}

function checkPlacement({ workerLabels, placement, memoryBudget }: ServerOptions): void {
  if (placement !== undefined && !PLACEMENTS.includes(placement)) throw wrong('placement', "'all' or 'on-demand'");
  if (memoryBudget !== undefined) {
    if (typeof memoryBudget !== 'object' || memoryBudget === null) throw wrong('memoryBudget', 'an object of bytes');
    for (const [device, bytes] of Object.entries(memoryBudget)) {
      if (!/^(?:cpu|gpu\d{1,3})$/.test(device)) throw wrong(`memoryBudget.${device}`, 'cpu, gpu0, gpu1 …');
      checkInteger(`memoryBudget.${device}`, bytes, 1, Number.MAX_SAFE_INTEGER);
    }
  }
  if (workerLabels === undefined) return;
  const isObject = typeof workerLabels === 'object' && workerLabels !== null;
  if (isObject && Object.keys(workerLabels).length === 0) return;
  if (!isObject || readLabelPairs(labelsText(workerLabels)) === undefined) {
    throw wrong('workerLabels', `an object of labels, ${LABELS_FORM}`);
  }
}

function checkCluster({ redis, privateRedis, jobsFsync, lane, timeScale, workerModels }: ServerOptions): void {
  if (redis !== undefined && !isTexts([redis?.url])) throw wrong('redis', 'an object with a url');
  if (jobsFsync !== undefined && !JOBS_FSYNC.includes(jobsFsync)) throw wrong('jobsFsync', "'everysec' or 'always'");
  if (lane !== undefined && !LANES.includes(lane)) throw wrong('lane', "'auto' or 'redis'");
  if (lane === 'redis' && redis === undefined && privateRedis === undefined) {
    throw wrong('lane', "'auto' where neither redis nor privateRedis is given");
  }
  if (timeScale !== undefined && !(timeScale >= TIME_SCALE_MIN && timeScale <= TIME_SCALE_MAX)) {
    throw wrong('timeScale', `a number from ${TIME_SCALE_MIN} to ${TIME_SCALE_MAX}`);
  }
  if (workerModels !== undefined && !isTexts(workerModels)) throw wrong('workerModels', 'an array of globs');
}

function checkRateLimit({ rateLimit, rateLimitResources = [] }: ServerOptions): void {
  if (rateLimit !== undefined && !RATE_LIMITS.includes(rateLimit))
    throw wrong('rateLimit', "'off' or 'execution_count'");
  if (!Array.isArray(rateLimitResources) || !isTexts(rateLimitResources.map((limit) => limit?.name))) {
    throw wrong('rateLimitResources', 'an array of objects with a name and a count');
  }
  for (const { count, device } of rateLimitResources) {
    checkInteger('rateLimitResources.count', count ?? Number.NaN, 0, RESOURCES_MAX);
    checkInteger('rateLimitResources.device', device, 0, RESOURCES_MAX);
  }
}

function checkCache({ cache }: ServerOptions): void {
  if (cache === undefined) return;
  if (cache?.kind !== 'local' && cache?.kind !== 'redis') throw wrong('cache', "an object of kind 'local' or 'redis'");
  checkInteger('cache.ttl_s', cache.ttl_s ?? Number.NaN, cache.kind === 'local' ? 0 : 1, CACHE_TTL_S_MAX);
  if (cache.kind === 'local') {
    checkInteger('cache.bytes_max', cache.bytes_max ?? Number.NaN, 1, Number.MAX_SAFE_INTEGER);
    return;
  }
  checkInteger('cache.answer_ms', cache.answer_ms ?? Number.NaN, 1, CACHE_ANSWER_MS_MAX);
  if (cache.redis !== undefined && !isTexts([cache.redis?.url])) throw wrong('cache.redis', 'an object with a url');
}

function checkJournal({ journal }: ServerOptions): void {
  if (journal === undefined) return;
  if (typeof journal !== 'object' || journal === null) throw wrong('journal', 'an object with a share from 0 to 1');
  const { share = 0 } = journal;
  if (typeof share !== 'number' || !(share >= 0 && share <= 1)) throw wrong('journal.share', 'a number from 0 to 1');
  for (const key of JOURNAL_KEYS) {
    checkInteger(`journal.${key}`, journal[key], JOURNAL_LEAST[key], Number.MAX_SAFE_INTEGER);
  }
}

function isTexts(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === 'string' && text !== '');
}

function checkInteger(name: string, value: number | undefined, min: number, max: number): void {
  if (value === undefined || (Number.isInteger(value) && value >= min && value <= max)) return;
  throw wrong(name, `a whole number from ${min} to ${max}`);
}

function wrong(field: string, wanted: string): NereidError {
  return new NereidError('INVALID_ARG', `${field} must be ${wanted}`, { field });
}
