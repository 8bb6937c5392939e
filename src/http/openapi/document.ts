import { CloudEvent } from '../../history/cloud-event-schema.js';
import { ConsistencyProof, InclusionProof, LogAlarm, LogListProof, LogReceipt } from '../log/log-schemas.js';
import { ErasureStatus } from '../../operations/erasure-status.js';
import { OperationProgress } from '../../operations/long-operation.js';
import { RebuildEstimate } from '../../operations/operations.js';
import { UnreadEvent } from '../../operations/skip-unread.js';
import { Verification } from '../../operations/verification.js';
import { ErasureAccepted, ErasureCount, ErasureCounted, NewErasure } from '../operations/erasure-schemas.js';
import {
  Lifted,
  NewEstimate,
  NewLift,
  NewRebuild,
  NewRollback,
  NewSkip,
  RebuildAccepted,
  SkipAccepted,
} from '../operations/operation-schemas.js';
import { PastOperation } from '../../operations/past-operations.js';
import { SystemStatus } from '../../operations/system-status.js';
import { ImportedLine, ImportEnd } from '../plants/import-schemas.js';
import { NewPlant, Plant, PlantList, PlantWithId } from '../schemas.js';
import { auditPaths } from './audit.js';
import { healthPaths } from './health.js';
import { logPaths } from './log.js';
import { operationPaths } from './operations.js';
import { ProblemDocument, reference, schemaOf } from './parts.js';
import { plantPaths } from './plants.js';

const ROUTE_NOT_FOUND = 'A process without it answers 404 `route_not_found`.';

/**
 * The API's document (OpenAPI 3.1). It is the same from every process, whatever its roles: clients that are generated
 * from it go to all of them, behind one address.
 */
export const apiDocument = (version: string) => ({
  openapi: '3.1.0',
  info: {
    title: 'Plant store',
    description:
      'Add, list and delete your plants. Every error is a problem document (RFC 9457) with a `code`.',
    version,
    license: { name: 'MIT', identifier: 'MIT' },
  },
  servers: [{ url: '.', description: 'Where this document comes from.' }],
  tags: [
    { name: 'plants', description: `Your plants. Served by the role \`api\`. ${ROUTE_NOT_FOUND}` },
    {
      name: 'audit',
      description: `All events, for auditors. Served by the role \`api\`. ${ROUTE_NOT_FOUND}`,
    },
    {
      name: 'log',
      description: `The signed tree over all events, for auditors and witnesses. Served by the role \`auditor\`. ${ROUTE_NOT_FOUND}`,
    },
    { name: 'operations', description: `For operators. Served by the role \`api\`. ${ROUTE_NOT_FOUND}` },
    { name: 'health', description: 'Served by every process.' },
  ],
  paths: { ...plantPaths, ...auditPaths, ...logPaths, ...operationPaths, ...healthPaths },
  components: {
    securitySchemes: {
      token: {
        type: 'http',
        scheme: 'bearer',
        bearerFormat: 'JWT',
        description: 'From `plants token`, or from the issuer.',
      },
    },
    schemas: {
      NewPlant: schemaOf(NewPlant),
      Plant: schemaOf(Plant),
      PlantList: { ...schemaOf(PlantList), items: reference('Plant') },
      PlantWithId: schemaOf(PlantWithId),
      ImportedLine: schemaOf(ImportedLine),
      ImportEnd: schemaOf(ImportEnd),
      Problem: schemaOf(ProblemDocument),
      CloudEvent: schemaOf(CloudEvent),
      NewErasure: schemaOf(NewErasure),
      ErasureAccepted: schemaOf(ErasureAccepted),
      ErasureCount: schemaOf(ErasureCount),
      ErasureCounted: schemaOf(ErasureCounted),
      ErasureStatus: schemaOf(ErasureStatus),
      NewEstimate: schemaOf(NewEstimate),
      RebuildEstimate: schemaOf(RebuildEstimate),
      OperationProgress: schemaOf(OperationProgress),
      Verification: schemaOf(Verification),
      NewLift: schemaOf(NewLift),
      Lifted: schemaOf(Lifted),
      UnreadEvent: schemaOf(UnreadEvent),
      NewRebuild: schemaOf(NewRebuild),
      NewRollback: schemaOf(NewRollback),
      RebuildAccepted: schemaOf(RebuildAccepted),
      NewSkip: schemaOf(NewSkip),
      SkipAccepted: schemaOf(SkipAccepted),
      PastOperation: schemaOf(PastOperation),
      SystemStatus: schemaOf(SystemStatus),
      InclusionProof: schemaOf(InclusionProof),
      ConsistencyProof: schemaOf(ConsistencyProof),
      LogReceipt: schemaOf(LogReceipt),
      LogAlarm: schemaOf(LogAlarm),
      LogListProof: schemaOf(LogListProof),
    },
  },
});
