import { failingCall, SERVICE } from './grpc-infer.mjs';
import { MODELS, WORDS } from './models.mjs';
import { bool, bytes, readMessage, sub, text, textOf, varint } from './protobuf.mjs';

/** Valid calls of all other methods, and those that are rightly refused. */

export const HEALTH = '/grpc.health.v1.Health/Check';

const call = (rpc, fields, check = () => undefined) => ({
  kind: 'admin',
  path: rpc.startsWith('/') ? rpc : SERVICE + rpc,
  messages: [fields],
  expect: 'valid',
  check: ([answer]) => (answer === undefined ? 'no message' : check(readMessage(answer))),
});

const isTrue = (fields) => (fields.get(1)?.[0] === 1n ? undefined : 'it is not true');
const isName = (name) => (fields) => (textOf(fields, 1) === name ? undefined : `name is ${textOf(fields, 1)}`);
const hasFirst = (fields) => (fields.has(1) ? undefined : 'it is empty');

const setting = (name, values) =>
  sub(1, [
    text(1, name),
    sub(
      2,
      values.map((value) => text(1, value)),
    ),
  ]);
const logSetting = (name, field) => sub(1, [text(1, name), sub(2, [field])]);

export function adminCall(dice) {
  const { name } = dice.pick(MODELS);
  const version = dice.chance(0.3) ? [text(2, '1')] : [];
  const model = [text(1, name), ...version];
  return dice.pick([
    () => call('ServerLive', [], isTrue),
    () => call('ServerReady', [], isTrue),
    () => call('ModelReady', model, isTrue),
    () => call('ServerMetadata', [], hasFirst),
    () => call('ModelMetadata', model, isName(name)),
    () => call('ModelConfig', model, (fields) => isName(name)(readMessage(fields.get(1)?.[0] ?? Buffer.alloc(0)))),
    () => call('ModelStatistics', model, hasFirst),
    () => call('ModelStatistics', [], hasFirst),
    () => call('RepositoryIndex', dice.pick([[], [bool(2, true)]]), hasFirst),
    () => call('SystemSharedMemoryStatus', []),
    () => call('CudaSharedMemoryStatus', []),
    () => call('SystemSharedMemoryUnregister', dice.pick([[], [text(1, 'a')]])),
    () => call('TraceSetting', dice.pick([[], [text(2, name)]]), hasFirst),
    () => call('TraceSetting', [setting('trace_rate', ['500']), text(2, name)], hasFirst),
    () => call('TraceSetting', [setting('trace_count', ['7'])], hasFirst),
    () => call('LogSettings', [], hasFirst),
    () => call('LogSettings', [logSetting('log_info', bool(1, true))], hasFirst),
    () =>
      call(
        'LogSettings',
        [logSetting('log_verbose_level', varint(2, 0)), logSetting('log_format', text(3, 'ISO8601'))],
        hasFirst,
      ),
    () => call(HEALTH, dice.pick([[], [text(1, 'anything')]]), hasFirst),
  ])();
}

export function refusedCall(dice) {
  const { name } = dice.pick(MODELS);
  const refused = (rpc, fields) => ({ ...call(rpc, fields), expect: 'refused' });
  return dice.pick([
    () => refused('ModelMetadata', [text(1, 'missing')]),
    () => refused('ModelConfig', [text(1, name), text(2, 'one')]),
    () => refused('ModelMetadata', [text(1, name), text(2, '7')]),
    () => refused('ModelStatistics', [text(1, 'missing')]),
    () => refused('ModelInfer', [text(1, 'missing')]),
    () => refused('ModelInfer', []),
    () => refused('ModelInfer', [text(1, WORDS.name)]),
    () => ({ ...refused('ModelInfer', failingCall()), fails: true }),
    () => refused('RepositoryModelLoad', [text(2, 'simple')]),
    () => refused('RepositoryModelUnload', [text(2, 'simple')]),
    () => refused('RepositoryIndex', [text(1, 'elsewhere')]),
    () => refused('SystemSharedMemoryRegister', [text(1, 'c'), text(2, '/nereid_fuzz_none'), varint(4, 64)]),
    () => refused('CudaSharedMemoryRegister', [text(1, 'c'), bytes(2, Buffer.alloc(64)), varint(4, 64)]),
    () => refused('SystemSharedMemoryStatus', [text(1, 'none')]),
    () => refused('TraceSetting', [setting('trace_level', ['OFF', 'TIMESTAMPS'])]),
    () => refused('TraceSetting', [text(2, 'missing'), setting('trace_rate', ['1'])]),
    () => refused('LogSettings', [logSetting('log_info', text(3, 'yes'))]),
    () => refused('LogSettings', [logSetting('log_format', text(3, 'fancy'))]),
    () => refused('ModelNothing', []),
    () => refused('/inference.Nothing/Infer', []),
    () => refused('/grpc.health.v1.Health/Watch', []),
  ])();
}
