# frozen_string_literal: true

require "fileutils"

# Answers the calls of the locks as a MongoDB server does. The documents are in a file that
# processes share. Requests change documents one at a time, unique indexes are checked, and times
# are rounded to milliseconds.
module StandIn
  # Replaces the driver's error. The locks look only at its name and its code.
  module Mongo
    class OperationFailure < StandardError
      def self.name = "Mongo::Error::OperationFailure"

      attr_reader :code

      def initialize(message, code = nil)
        super(message)
        @code = code
      end
    end
  end

  # The server, which has the documents.
  class Server
    attr_reader :requests

    # @param path [String, nil] the file; if nil, only this process has the documents
    def initialize(path = nil)
      @path = path
      @lock = Mutex.new
      @state = { documents: [], unique: [] }
      @requests = 0
    end

    def all = request { |state| state[:documents].map(&:dup) }

    def first(filter) =
      request { |state| state[:documents].find { |document| match?(document, filter) }&.dup }

    def index(keys, unique)
      request do |state|
        next unless unique

        state[:documents].combination(2) { |one, other| refuse_duplicate([keys], [other], one) }
        state[:unique] |= [keys]
      end
    end

    def change(filter, changes, upsert)
      request do |state|
        found = state[:documents].find { |document| match?(document, filter) }
        next if found.nil? && !upsert

        document = apply(found || filter.reject { |_, value| value.is_a?(Hash) }, changes)
        refuse_duplicate(state[:unique], state[:documents], document) unless found
        found ? found.replace(document) : state[:documents] << document
        document.dup
      end
    end

    def remove(filter)
      request do |state|
        found = state[:documents].find { |document| match?(document, filter) }
        state[:documents].delete(found)
      end
    end

    # Calls the block with the number of each request. If the block returns true, the request
    # fails.
    def failing(&block) = @failing = block

    private

    def request
      @requests += 1
      raise Mongo::OperationFailure.new("no server", 91) if @failing&.call(@requests)

      Thread.handle_interrupt(Object => :never) do
        @path ? in_file { |state| yield state } : @lock.synchronize { yield @state }
      end
    end

    def in_file
      File.open(@path, File::RDWR | File::CREAT) do |file|
        file.flock(File::LOCK_EX)
        # pread, because read would go through the Fiber scheduler
        state = file.size.zero? ? @state : Marshal.load(file.pread(file.size, 0))
        yield(state).tap do
          written = Marshal.dump(state)
          file.pwrite(written, 0)
          file.truncate(written.bytesize)
        end
      end
    end

    def match?(document, filter)
      filter.all? do |field, wanted|
        value = document[field]
        next value == moment(wanted) unless wanted.is_a?(Hash)

        wanted.all? { |operator, bound| value && compare(value, operator, bound) }
      end
    end

    def compare(value, operator, bound)
      case operator
      when "$lt" then value < bound
      when "$gt" then value > bound
      when "$in" then bound.any? { |one| moment(one) == value }
      else raise ArgumentError, "no operator called #{operator}"
      end
    end

    def apply(document, changes)
      changes.each_with_object(document.dup) do |(operator, fields), changed|
        fields.each do |field, value|
          case operator
          when "$set" then changed[field] = moment(value)
          when "$inc" then changed[field] = changed.fetch(field, 0) + value
          when "$unset" then changed.delete(field)
          else raise ArgumentError, "no operator called #{operator}"
          end
        end
      end
    end

    def moment(value) = value.is_a?(Time) ? Time.at(value.to_r.floor(3)).utc : value

    def refuse_duplicate(unique, documents, document)
      unique.each do |keys|
        next unless documents.any? { |other| keys.all? { |key| other[key] == document[key] } }

        raise Mongo::OperationFailure.new("E11000 duplicate key error", 11_000)
      end
    end
  end

  # A collection with the methods of the current driver.
  class Collection
    Indexes = Struct.new(:server) do
      def create_one(keys, unique: false, background: false)
        server.index(keys.keys, unique)
      end
    end

    attr_reader :server

    def initialize(server) = @server = server

    def indexes = Indexes.new(@server)

    def find(filter) = filter.empty? ? @server.all : [@server.first(filter)].compact

    def find_one_and_update(filter, changes, return_document:, upsert: false)
      raise ArgumentError, "only :after" unless return_document == :after

      @server.change(filter, changes, upsert)
    end

    def find_one_and_delete(filter) = @server.remove(filter)
  end

  # A collection with the methods of the driver for which the gem was written.
  class OldCollection
    attr_reader :server

    def initialize(server) = @server = server

    def ensure_index(keys, unique: false, background: false)
      @server.index(keys.map(&:first), unique)
    end

    def find(filter) = filter.empty? ? @server.all : [@server.first(filter)].compact

    def find_and_modify(query:, update: nil, new: false, upsert: false, remove: false)
      raise ArgumentError, "not atomic" unless query["$atomic"] == 1
      raise ArgumentError, "only the new document" unless new || remove

      filter = query.except("$atomic")
      found = remove ? @server.remove(filter) : @server.change(filter, update, upsert)
      found or raise Mongo::OperationFailure, "No matching object found"
    end
  end
end
