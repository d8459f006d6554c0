import type { Cluster, Redis } from 'ioredis';

export declare function bullmqConnection(spec: object): Cluster | Redis;
