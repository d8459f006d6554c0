import { NereidError } from '@nereid/protocol';
import type { CodeUploader } from '../code-upload.ts';
import { isFileParameter, type LoadParameter } from '../load-override.ts';
import { FORWARDED } from '../loopback.ts';
import { REPOSITORY_NAME_REFUSED } from '../repository.ts';
import { ADMIN_KEY_HEADER } from '../restricted.ts';
import type { Result } from '../result.ts';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService, type RepositoryModelLoadRequest } from './gen/grpc_service_pb.ts';
import type { CallMetadata, GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** The repository's index, and load and unload (grpc_server.cc). Unlike over HTTP the index too refuses a repository's name. */
export function repositoryCalls({ services, onLoopback }: CallContext): readonly GrpcCall[] {
  const { repositoryIndex, repositoryModelLoad, repositoryModelUnload } = GRPCInferenceService.method;
  const { repository } = services;
  return [
    unary(repositoryIndex, async ({ repositoryName, ready }) => {
      if (repositoryName !== '') return { ok: false, error: REPOSITORY_NAME_REFUSED };
      const index = await repository.index(ready);
      return index.ok ? { ok: true, value: { models: [...index.value] } } : index;
    }),
    unary(repositoryModelLoad, async ({ repositoryName, modelName, parameters }, { metadata }) => {
      if (repositoryName !== '') return { ok: false, error: REPOSITORY_NAME_REFUSED };
      const caller = uploaderOf(metadata, onLoopback);
      return empty(await repository.load(modelName, loadParameters(parameters), caller));
    }),
    unary(repositoryModelUnload, async ({ repositoryName, modelName, parameters }) => {
      if (repositoryName !== '') return { ok: false, error: REPOSITORY_NAME_REFUSED };
      const dependents = parameters.unload_dependents?.parameterChoice;
      if (dependents !== undefined && dependents.case !== 'boolParam') {
        throw wrong('unload_dependents', "invalid value type for 'unload_dependents' parameter, expected bool_param.");
      }
      return empty(await repository.unload(modelName, dependents?.value ?? false));
    }),
  ];
}

function uploaderOf(metadata: CallMetadata, onLoopback: boolean): CodeUploader {
  const isLocal = onLoopback && !FORWARDED.some((name) => metadata.get(name) !== undefined);
  return { isLocal, key: metadata.get(ADMIN_KEY_HEADER.toLowerCase()) };
}

function empty(result: Result<undefined>): Result<Record<string, never>> {
  return result.ok ? { ok: true, value: {} } : result;
}

function loadParameters(parameters: RepositoryModelLoadRequest['parameters']): readonly LoadParameter[] {
  return Object.entries(parameters).map(([name, { parameterChoice: choice }]) => {
    if (choice.case === 'bytesParam' && isFileParameter(name)) return { name, value: choice.value };
    // What is neither a config nor a file is refused by name, whatever its kind.
    if (choice.case === 'stringParam' && !isFileParameter(name)) return { name, value: choice.value };
    if (name !== 'config' && !isFileParameter(name)) return { name, value: '' };
    const kind = isFileParameter(name) ? 'bytes_param' : 'string_param';
    throw wrong(name, `invalid value type for load parameter '${name}', expected ${kind}.`);
  });
}

function wrong(parameter: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field: `parameters.${parameter}` });
}
