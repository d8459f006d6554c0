import type { CallContext } from './call-context.ts';
import { healthCalls } from './health-calls.ts';
import { inferCalls } from './infer-calls.ts';
import { metadataCalls } from './metadata-calls.ts';
import { repositoryCalls } from './repository-calls.ts';
import { settingsCalls } from './settings-calls.ts';
import { sharedMemoryCalls } from './shared-memory-calls.ts';
import { statisticsCalls } from './statistics-calls.ts';
import { streamCalls } from './stream-calls.ts';
import type { GrpcCall } from './transport.ts';

/**
 * Every call of the server. An area has its own in a file `<area>-calls.ts` with a function from the
 * context to its calls (`unary` for one request and one answer by the generated messages, a StreamCall
 * by hand). Its service stands in the context's Services.
 */
export function grpcCalls(context: CallContext): readonly GrpcCall[] {
  return [
    ...healthCalls(context),
    ...metadataCalls(context),
    ...inferCalls(context),
    ...streamCalls(context),
    ...settingsCalls(context),
    ...repositoryCalls(context),
    ...statisticsCalls(context),
    ...sharedMemoryCalls(context),
  ];
}
