import { type ControlMode, encodeRepositoryList, REPOSITORY_VALUE } from '@nereid/config';
import { afterEach, expect, it } from 'vitest';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { askJson, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';

const { repositoryIndex, repositoryModelLoad, repositoryModelUnload } = GRPCInferenceService.method;
const INVALID_ARGUMENT = 3;
const UNIMPLEMENTED = 12;
const NOT_ALLOWED = {
  code: 14,
  details: 'explicit model load / unload is not allowed if polling is enabled',
  detail: 'UNAVAILABLE',
};

const fixtures: GrpcFixture[] = [];
afterEach(() => Promise.all(fixtures.splice(0).map((fixture) => fixture.close())));

async function served(controlMode: ControlMode, address?: string) {
  const fixture = await grpcFixture(address === undefined ? {} : { grpc: { address } });
  fixtures.push(fixture);
  const folders = ['never_loaded', 'simple'].map((name) => ({ name, conflict: null }));
  await fixture.directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode, folders }));
  return askJson(fixture.client());
}

it('the index has all, or what is ready', async () => {
  const ask = await served('none');
  const ready = { name: 'simple', version: '1', state: 'READY' };
  expect(await ask(repositoryIndex, {})).toEqual({ code: 0, message: { models: [{ name: 'never_loaded' }, ready] } });
  expect(await ask(repositoryIndex, { ready: true })).toEqual({ code: 0, message: { models: [ready] } });
});

it('a named repository is not supported', async () => {
  const ask = await served('explicit');
  const named = { repositoryName: 'r' };
  const refused = { code: UNIMPLEMENTED, details: "'repository_name' specification is not supported" };
  expect(await ask(repositoryIndex, named)).toMatchObject(refused);
  expect(await ask(repositoryModelLoad, named)).toMatchObject(refused);
  expect(await ask(repositoryModelUnload, named)).toMatchObject(refused);
});

it('load and unload are not allowed in mode none, and done in mode explicit', async () => {
  const none = await served('none');
  const explicit = await served('explicit');
  const model = { modelName: 'simple' };
  expect(await none(repositoryModelLoad, model)).toEqual(NOT_ALLOWED);
  expect(await none(repositoryModelUnload, model)).toEqual(NOT_ALLOWED);
  const done = { code: 0, message: {} };
  expect(await explicit(repositoryModelLoad, model)).toEqual(done);
  expect(await explicit(repositoryModelUnload, model)).toEqual(done);
});

const text = { parameterChoice: { case: 'stringParam', value: '{}' } } as const;
const bytes = { parameterChoice: { case: 'bytesParam', value: new Uint8Array(1) } } as const;
const flag = { parameterChoice: { case: 'boolParam', value: true } } as const;

it.each([
  [{ config: flag }, "invalid value type for load parameter 'config', expected string_param."],
  [{ config: bytes }, "invalid value type for load parameter 'config', expected string_param."],
  [{ 'file:a': text }, "invalid value type for load parameter 'file:a', expected bytes_param."],
  [{ 'file:a': {} }, "invalid value type for load parameter 'file:a', expected bytes_param."],
  [{ zz: flag }, "unrecognized load parameter 'zz'."],
])('a load with %j is refused, whatever the mode', async (parameters, message) => {
  const ask = await served('none');
  expect(await ask(repositoryModelLoad, { modelName: 'simple', parameters })).toMatchObject({
    code: INVALID_ARGUMENT,
    details: message,
  });
});

it('right parameters change nothing of that', async () => {
  const ask = await served('none');
  const parameters = { config: text, 'file:a': bytes };
  expect(await ask(repositoryModelLoad, { modelName: 'simple', parameters })).toEqual(NOT_ALLOWED);
  expect(await ask(repositoryModelUnload, { modelName: 'simple', parameters: { unload_dependents: flag } })).toEqual(
    NOT_ALLOWED,
  );
  expect(
    await ask(repositoryModelUnload, { modelName: 'simple', parameters: { unload_dependents: text } }),
  ).toMatchObject({
    code: INVALID_ARGUMENT,
    details: "invalid value type for 'unload_dependents' parameter, expected bool_param.",
  });
});

it('code is taken where the door is on a loopback address', async () => {
  const ask = await served('explicit');
  const config = { parameterChoice: { case: 'stringParam', value: '{"backend":"javascript"}' } } as const;
  const parameters = { config, 'file:1/model.mjs': bytes };
  expect(await ask(repositoryModelLoad, { modelName: 'simple', parameters })).toEqual({ code: 0, message: {} });
});

it('code is not taken where the door is open to others', async () => {
  const ask = await served('explicit', '0.0.0.0');
  const config = { parameterChoice: { case: 'stringParam', value: '{"backend":"javascript"}' } } as const;
  const parameters = { config, 'file:1/model.mjs': bytes };
  expect(await ask(repositoryModelLoad, { modelName: 'simple', parameters })).toMatchObject({
    code: INVALID_ARGUMENT,
    details: expect.stringContaining("'file:1/model.mjs' is code"),
  });
});
