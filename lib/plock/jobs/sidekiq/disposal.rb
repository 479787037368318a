# frozen_string_literal: true

require "securerandom"
require_relative "../guard/held"
require_relative "payload"

module Plock
  module Sidekiq
    # Releases the leases of jobs that will not run: jobs that die, and jobs that are deleted
    # through Sidekiq's own classes or its web pages. A release needs only the job's ticket, so the
    # job's class may be gone. If the class is gone, the lease is looked up in the default store.
    #
    # @api private
    module Disposal
      # Sidekiq calls this for each job that dies.
      DEATH = ->(item, _error) { Disposal.of(item) }

      # Before a set or queue is cleared, plock renames its key in Redis, so that the jobs can still
      # be read. The renamed key begins with CLEARED, and expires after CLEARED_TTL seconds. One
      # request reads at most PAGE jobs.
      CLEARED = "plock:cleared:"
      CLEARED_TTL = 3600
      PAGE = 500

      # Sidekiq's alias of `clear`. The alias would still call Sidekiq's own method, so plock also
      # overrides the alias.
      OTHER_NAME = :💣

      # Prepended to Sidekiq::JobRecord.
      module Deleted
        def delete
          super.tap { |deleted| Disposal.of(item) if deleted && deleted != 0 }
        end
      end

      # Prepended to Sidekiq::JobSet. An entry of the set deletes itself through one of these
      # methods.
      module Emptied
        def clear
          Disposal.aside(name, ->(redis, key, from, to) { redis.zrange(key, from, to) }) { super }
        end
        define_method(OTHER_NAME) { clear }

        def delete_by_value(name, value)
          super.tap { |deleted| Disposal.of_text(value) if deleted && deleted != 0 }
        end

        def delete_by_jid(score, jid)
          entry = fetch(score, jid).first
          entry ? delete_by_value(name, entry.value) : super
        end

        def delete(score, jid) = delete_by_jid(score, jid)
      end

      # Prepended to Sidekiq::DeadSet. If a caller of `kill` skips the death handlers, this module
      # releases the job's lease in their place.
      module Killed
        def kill(message, options = {})
          super.tap { Disposal.of_text(message) if options[:notify_failure] == false }
        end
      end

      # Prepended to Sidekiq::Queue. The queue is renamed before its leases are released. A job
      # that a worker has fetched before the rename keeps its lease.
      module Cleared
        def clear
          Disposal.aside(@rname, ->(redis, key, from, to) { redis.lrange(key, from, to) }) { super }
        end
        define_method(OTHER_NAME) { clear }
      end

      class << self
        def attach
          ::Sidekiq::JobRecord.prepend(Deleted)
          ::Sidekiq::DeadSet.prepend(Killed)
          ::Sidekiq::Queue.prepend(Cleared)
          ::Sidekiq::JobSet.prepend(Emptied)
        end

        # @param item [Hash] a job, as Sidekiq stores it
        # @return [Boolean] false if the store failed
        def of(item)
          tickets = Payload.tickets(item)
          return true if tickets.empty?

          store = Payload.guard(item)&.store || Plock
          tickets.each { |ticket| Guard::Held.give_back(store, ticket) }
          true
        rescue Error => e
          ::Sidekiq.logger.warn("plock: job #{item["jid"]} is gone; its key stays taken until " \
                                "its time in the queue is over: #{e.class}: #{e.message}")
          false
        end

        # @param text [String] the data of a job, as stored in Redis
        def of_text(text)
          text.include?(Payload::MARK) ? of(::Sidekiq.load_json(text)) : true
        rescue JSON::ParserError
          true # invalid JSON has no ticket, so there is no lease to release
        end

        # Renames a queue or set, and runs the block. Then releases the leases of the jobs that are
        # in the renamed queue or set.
        #
        # @param key [String] the key of the queue or set in Sidekiq's Redis
        # @param read [#call] receives the connection, the key, and the first and last index;
        #   returns the jobs in that range
        # @return [Object] the block's value
        def aside(key, read)
          renamed = "#{CLEARED}#{SecureRandom.hex(8)}"
          there = ::Sidekiq.redis { |redis| set_aside(redis, key, renamed) }
          value = yield
          release_all(renamed, read) if there
          value
        end

        private

        def set_aside(redis, key, renamed)
          redis.call("RENAME", key, renamed)
          redis.call("EXPIRE", renamed, CLEARED_TTL)
          true
        rescue RedisClient::CommandError => e
          unless e.message.include?("no such key")
            ::Sidekiq.logger.warn("plock: the keys of the jobs of #{key} stay taken until their " \
                                  "time in the queue is over: #{e.message}")
          end
          false
        end

        def release_all(key, read)
          (0..).step(PAGE) do |from|
            texts = ::Sidekiq.redis { |redis| read.call(redis, key, from, from + PAGE - 1) }
            break unless texts.all? { |text| of_text(text) } && texts.size == PAGE
          end
          ::Sidekiq.redis { |redis| redis.unlink(key) }
        end
      end
    end
  end
end
