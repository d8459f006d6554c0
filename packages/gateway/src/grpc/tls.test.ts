import { credentials } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { type Certified, certify } from '../certificate-fixture.ts';
import type { DoorTls } from '../door-tls.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { ask, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';

const { serverLive } = GRPCInferenceService.method;
const LIVE = { code: 0, message: { live: true } };
const UNAVAILABLE = { code: 14 };

const authority = certify('authority');
const server = certify('localhost', authority);

let fixture: GrpcFixture;
afterEach(() => fixture.close());

/** The files are looked at after ten seconds only. */
const tls = (clientCa?: Certified): DoorTls => ({
  files: { cert: 'cert.pem', key: 'key.pem' },
  flags: { cert: 'cert', key: 'key', clientCa: 'ca' },
  contents: {
    cert: Buffer.from(server.cert),
    key: Buffer.from(server.key),
    ca: clientCa === undefined ? undefined : Buffer.from(clientCa.cert),
  },
});

const trusting = (client?: Certified) =>
  credentials.createSsl(
    Buffer.from(authority.cert),
    client === undefined ? null : Buffer.from(client.key),
    client === undefined ? null : Buffer.from(client.cert),
  );

describe('over TLS', () => {
  it('a client that trusts the certificate is served, a plain one is not', async () => {
    fixture = await grpcFixture({ grpc: { tls: tls() } });
    expect(await ask(fixture.client({ credentials: trusting() }), serverLive, {})).toMatchObject(LIVE);
    expect(await ask(fixture.client(), serverLive, {})).toMatchObject(UNAVAILABLE);
  });

  it('with mutual TLS only a client with a certificate of the authority is served', async () => {
    fixture = await grpcFixture({ grpc: { tls: tls(authority) } });
    const known = trusting(certify('client', authority));
    const stranger = trusting(certify('client', certify('another authority')));
    expect(await ask(fixture.client({ credentials: known }), serverLive, {})).toMatchObject(LIVE);
    for (const refused of [trusting(), stranger]) {
      expect(await ask(fixture.client({ credentials: refused }), serverLive, {})).toMatchObject(UNAVAILABLE);
    }
  });
});
