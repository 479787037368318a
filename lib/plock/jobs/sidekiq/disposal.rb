# frozen_string_literal: true

require "securerandom"
require_relative "../guard/held"
require_relative "payload"

module Plock
  module Sidekiq
    # Gives back the leases of jobs that will not run: jobs that die, and jobs that are deleted
    # through Sidekiq's own classes or its web pages. It needs only their tickets, so the class of a
    # job may be gone. The lease of such a job is looked for in the default store.
    #
    # @api private
    module Disposal
      # Called by Sidekiq for each job that dies.
      DEATH = ->(item, _error) { Disposal.of(item) }

      # The prefix of the name of a set or queue that is being cleared, and seconds that it lasts.
      CLEARED = "plock:cleared:"
      CLEARED_TTL = 3600
      PAGE = 500

      # Sidekiq's alias of `clear`, which stays bound to its own method.
      OTHER_NAME = :💣

      # Prepended to Sidekiq::JobRecord.
      module Deleted
        def delete
          super.tap { |deleted| Disposal.of(item) if deleted && deleted != 0 }
        end
      end

      # Prepended to Sidekiq::JobSet, through which an entry of a set deletes itself.
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

      # Prepended to Sidekiq::DeadSet. A job may be killed without a call of the death handlers.
      module Killed
        def kill(message, options = {})
          super.tap { Disposal.of_text(message) if options[:notify_failure] == false }
        end
      end

      # Prepended to Sidekiq::Queue. The queue is renamed first: a job that a worker fetches before
      # that belongs to the worker.
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

        # @param item [Hash] Sidekiq's data of a job
        # @return [Boolean] could the store be asked?
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

        # @param text [String] the data of a job, as it stands in Redis
        # @return [Boolean]
        def of_text(text)
          text.include?(Payload::MARK) ? of(::Sidekiq.load_json(text)) : true
        rescue JSON::ParserError
          true # Sidekiq, too, treats such a text as a dead job
        end

        # @param key [String] the key of the queue or set in Sidekiq's Redis
        # @param read [#call] gets the connection, the key, and the first and last index
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
