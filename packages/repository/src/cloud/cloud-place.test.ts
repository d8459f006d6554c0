import { expect, test } from 'vitest';
import { cloudPlace } from './cloud-place.ts';

test.each([
  ['s3://bucket', { kind: 's3', bucket: 'bucket', prefix: '', endpoint: undefined }],
  ['s3://bucket/', { bucket: 'bucket', prefix: '', url: 's3://bucket' }],
  ['s3://bucket/a/b/', { bucket: 'bucket', prefix: 'a/b/', url: 's3://bucket/a/b' }],
  ['s3://minio:9000/bucket/a', { bucket: 'bucket', prefix: 'a/', endpoint: 'http://minio:9000' }],
  ['s3://http://10.0.0.1:9000/bucket', { bucket: 'bucket', prefix: '', endpoint: 'http://10.0.0.1:9000' }],
  ['s3://https://s3.example.org/bucket//a', { bucket: 'bucket', prefix: 'a/', endpoint: 'https://s3.example.org' }],
  ['gs://bucket/a', { kind: 'gs', bucket: 'bucket', prefix: 'a/', endpoint: undefined }],
  ['as://account/container/a', { kind: 'as', account: 'account', bucket: 'container', prefix: 'a/' }],
  [
    'as://127.0.0.1:10000/devstoreaccount1/models',
    { account: 'devstoreaccount1', bucket: 'models', prefix: '', endpoint: 'http://127.0.0.1:10000' },
  ],
])('%s', (url, place) => {
  expect(cloudPlace(url)).toMatchObject(place);
});

test.each(['/models', 'models', './s3:/x', 'file:///models', ''])('%s is none', (path) => {
  expect(cloudPlace(path)).toBeUndefined();
});

test.each([
  ['s3://', "the model repository 's3://' names no bucket: write s3://<bucket>/<path>"],
  ['s3://minio:9000', "the model repository 's3://minio:9000' names no bucket"],
  ['gs:///', "the model repository 'gs:///' names no bucket: write gs://<bucket>/<path>"],
  ['as://account', "the model repository 'as://account' names no container: write as://<account>/<container>/<path>"],
  ['as://', "the model repository 'as://' names no account"],
])('%s lacks a part', (url, text) => {
  expect(() => cloudPlace(url)).toThrow(
    expect.objectContaining({
      code: 'INVALID_ARG',
      field: '--model-repository',
      message: expect.stringContaining(text),
    }),
  );
});
