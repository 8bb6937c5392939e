import { Controller, Inject } from '@nestjs/common';
import { type FastifyReply } from 'fastify';
import { randomUUID } from 'node:crypto';
import { ErasureGate } from '../../erasure/gate.js';
import { orderErasure, OWN_REASON, UnknownOwner } from '../../erasure/order.js';
import { type System } from '../../operations/status.js';
import { SYSTEM } from '../operations/operations.controller.js';
import { Problem } from '../problem.js';
import { type Asked, Handles } from '../route.js';
import { plantRequestOf } from './plant-request.js';
import { plantRoutes } from './plant-routes.js';

/** For Nest: a boolean is no class. */
export const OWNER_ERASURE = Symbol('OWNER_ERASURE');

/** An owner erases everything that is stored for this owner, where the settings allow that. */
@Controller()
export class OwnErasureController {
  constructor(
    @Inject(SYSTEM) private readonly system: System,
    @Inject(OWNER_ERASURE) private readonly isAllowed: boolean,
    private readonly gate: ErasureGate,
  ) {}

  @Handles(plantRoutes.eraseEverything)
  async erase({ request }: Asked<typeof plantRoutes.eraseEverything>, reply: FastifyReply) {
    if (!this.isAllowed)
      throw new Problem(
        'operation_refused',
        'Owners cannot erase themselves here (OWNER_ERASURE is off): ask the operator of this service to do it.',
      );
    const { log, now } = this.system;
    const { owner, context } = plantRequestOf(request);
    // Nothing that names the owner may stay in the log: neither the token's subject, nor an id that the client chose.
    const operator = { actor: { sub: owner }, correlationId: context.commandId };
    try {
      const order = { erasure: randomUUID(), owner, reason: OWN_REASON };
      const erasure = await orderErasure(log, order, operator, now);
      await this.gate.look();
      reply.status(202);
      return { erasure };
    } catch (error) {
      if (!(error instanceof UnknownOwner)) throw error;
      reply.status(204); // nothing is stored: so a repeated request succeeds
      return undefined;
    }
  }
}
