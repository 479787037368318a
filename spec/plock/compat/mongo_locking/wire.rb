# frozen_string_literal: true

require "bson"
require "socket"
require_relative "stand_in"

module StandIn
  # A {Server} behind a port. It speaks the part of MongoDB's protocol that the current driver
  # needs for the calls of a lock.
  class Wire
    HEADER = "l<4"
    QUERY, REPLY, MESSAGE = 2004, 1, 2013

    HELLO = {
      "ismaster" => true, "isWritablePrimary" => true, "minWireVersion" => 0,
      "maxWireVersion" => 17, "maxBsonObjectSize" => 16_777_216,
      "maxMessageSizeBytes" => 48_000_000, "maxWriteBatchSize" => 100_000
    }.freeze

    # @return [Array<String>] the names of the received commands, in order
    attr_reader :commands

    # @return [Array<Hash>] the write concerns of the commands that change documents
    attr_reader :concerns

    def initialize(server)
      @server = server
      @commands = []
      @concerns = []
      @listener = TCPServer.new("127.0.0.1", 0)
      Thread.new { loop { Thread.new(@listener.accept) { |connection| serve(connection) } } }
    end

    def address = "127.0.0.1:#{@listener.addr[1]}"

    private

    def serve(connection)
      while (header = connection.read(16))
        length, request, _, kind = header.unpack(HEADER)
        body = connection.read(length - 16)
        connection.write(kind == QUERY ? reply(request) : message(request, body.byteslice(5..)))
      end
    rescue SystemCallError, IOError
      connection.close
    end

    # Only the driver's first question comes in the old format. It asks what kind of server this
    # is.
    def reply(request)
      framed(REPLY, request, [8, 0, 0, 1].pack("l<q<l<l<") + bson(HELLO.merge("ok" => 1.0)))
    end

    def message(request, bytes)
      command = BSON::Document.from_bson(BSON::ByteBuffer.new(bytes))
      framed(MESSAGE, request, [0, 0].pack("L<C") + bson(answer(command)))
    end

    def framed(kind, request, body) = [body.bytesize + 16, 0, request, kind].pack(HEADER) + body

    def bson(document) = BSON::Document.new(document).to_bson.to_s

    def answer(command)
      name = command.keys.first
      @commands << name unless %w[hello ismaster isMaster ping endSessions].include?(name)
      { "ok" => 1.0 }.merge(perform(name, command))
    rescue Mongo::OperationFailure => e
      { "ok" => 0.0, "code" => e.code, "errmsg" => e.message }
    end

    def perform(name, command)
      case name
      when "createIndexes"
        command["indexes"].each { |index| @server.index(index["key"].keys, index["unique"]) } && {}
      when "findAndModify"
        @concerns << command["writeConcern"].to_h
        { "value" => modify(command) }
      when "find"
        {
          "cursor" => {
            "id" => 0, "ns" => "x.locks", "firstBatch" => found(command["filter"].to_h)
          }
        }
      else
        HELLO
      end
    end

    def found(filter) = filter.empty? ? @server.all : [@server.first(filter)].compact

    def modify(command)
      query = command["query"].to_h
      return @server.remove(query) if command["remove"]
      raise Mongo::OperationFailure.new("only the new document", 9) unless command["new"]

      @server.change(query, command["update"].to_h, command["upsert"])
    end
  end
end
